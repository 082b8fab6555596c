-- The transitions of the locks of some spaces after a position, in commit order.
--
-- $1 and $2 the position: transaction and event · $3 how many transactions to read at most · $4 and $5 the position to
-- stop at · $6 the spaces · $7 one name, or null for all · $8 how many events to return at most
--
-- `stop_before` is the first transaction that was not read: at the latest the oldest one in progress. Ids and times are assigned
-- before the commit, so an event with a lower one can become visible after one with a higher. Transactions before the
-- oldest one in progress have all ended: their events are visible, and no others will join them. So a reader stops there,
-- and whatever commits later comes after its position. `commit_position` is never below the transaction that wrote the
-- event, and for one name it only rises (octo_event_position).
--
-- There is always a row, so that a reader advances where nothing happened. Planned with its values: a generic plan could
-- read the whole history of a space.
WITH horizon AS MATERIALIZED (
    SELECT
        least(
            pg_snapshot_xmin(pg_current_snapshot())::text::bigint, $1::bigint + $3::bigint, $4::bigint + 1
        )::text::xid8 AS stop_before,
        octo_timeline() AS timeline,
        clock_timestamp() AS now
)
SELECT
    horizon.stop_before::text::bigint AS stop_before,
    horizon.timeline,
    horizon.now,
    event.commit_position::text::bigint AS commit_position, event.id, event.txid::text::bigint AS txid, event.at,
    event.kind, event.space_id, event.lock_name, event.fencing_token, event.owner, event.metadata,
    -- The present one, if the lock still has this lease: the history does not record expiry times.
    octo_effective_expiry(lock.expires_at, lock.bound_session_id) AS expires_at
FROM horizon
LEFT JOIN LATERAL (
    SELECT commit_position, id, txid, at, kind, space_id, lock_name, fencing_token, owner, metadata
    FROM octo_event
    WHERE octo_event.commit_position >= $1::bigint::text::xid8
      AND (octo_event.commit_position > $1::bigint::text::xid8 OR octo_event.id > $2::bigint)
      AND octo_event.commit_position < horizon.stop_before
      AND (octo_event.commit_position < $4::bigint::text::xid8 OR octo_event.id <= $5::bigint)
      AND octo_event.space_id = ANY ($6::bigint[])
      AND octo_event.lock_name IS NOT NULL
      AND ($7::text IS NULL OR octo_event.lock_name = $7)
      AND octo_event.kind IN ('acquired', 'released', 'expired', 'force_released')
    ORDER BY octo_event.commit_position, octo_event.id
    LIMIT $8::int
) AS event ON true
LEFT JOIN octo_lock AS lock ON event.kind = 'acquired'
    AND lock.space_id = event.space_id AND lock.name = event.lock_name AND lock.fencing_token = event.fencing_token
ORDER BY event.commit_position, event.id
