-- What the viewers of each space are told of: how many events it has had since the last look, in commit order, and
-- what a page shows though it leaves no event, to be compared from one look to the next. Changes nothing.
--
-- $1 space ids, $2 the transaction up to which each was looked at, or null for the first time. `beyond` is the oldest
-- transaction still under way: what it commits is counted by a later look (see history/sql/follow.sql).
SELECT
    watched.space_id,
    horizon.beyond::text::bigint AS beyond,
    news.number,
    held.renewed_at,
    session.last_keepalive_at,
    waiting.number, waiting.latest
FROM unnest($1::bigint[], $2::bigint[]) AS watched (space_id, since)
CROSS JOIN (SELECT pg_snapshot_xmin(pg_current_snapshot()) AS beyond) AS horizon
CROSS JOIN LATERAL (
    SELECT count(*) AS number FROM octo_event
    WHERE octo_event.commit_position >= watched.since::text::xid8 AND octo_event.commit_position < horizon.beyond
      AND octo_event.space_id = watched.space_id
) AS news
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
) AS waiting
