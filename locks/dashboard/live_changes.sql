-- What has changed in each space since the last poll: the number of its events in commit order, and values that move without
-- an event, to be compared from poll to poll. Changes nothing.
--
-- $1 space ids, $2 the transaction up to which each was read, or null the first time. `oldest_running` is the oldest
-- transaction in progress: its events are counted by a later poll (see locks/events/stream/sql/transitions.sql).
SELECT
    watched.space_id,
    horizon.oldest_running::text::bigint AS oldest_running,
    event.number,
    held.renewed_at,
    session.last_keepalive_at,
    waiter.number, waiter.latest
FROM unnest($1::bigint[], $2::bigint[]) AS watched (space_id, since)
CROSS JOIN (SELECT pg_snapshot_xmin(pg_current_snapshot()) AS oldest_running) AS horizon
CROSS JOIN LATERAL (
    SELECT count(*) AS number FROM octo_event
    WHERE octo_event.commit_position >= watched.since::text::xid8 AND octo_event.commit_position < horizon.oldest_running
      AND octo_event.space_id = watched.space_id
) AS event
CROSS JOIN LATERAL (
    SELECT max(renewed_at) AS renewed_at
    FROM octo_lock WHERE octo_lock.space_id = watched.space_id AND lease_id IS NOT NULL
) AS held
CROSS JOIN LATERAL (
    SELECT max(last_keepalive_at) AS last_keepalive_at
    FROM octo_session WHERE octo_session.space_id = watched.space_id AND next_sweep_at IS NOT NULL
) AS session
CROSS JOIN LATERAL (
    SELECT count(*) AS number, max(id) AS latest FROM octo_waiter WHERE octo_waiter.space_id = watched.space_id
) AS waiter
