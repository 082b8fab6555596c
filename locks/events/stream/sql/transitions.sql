-- News: what became of the locks of some spaces after a position, in commit order. Changes nothing.
--
-- $1 and $2 the position: transaction and event · $3 the most transactions to look at · $4 and $5 the position to stop
-- at · $6 the spaces · $7 one name, or null for all · $8 the most events
--
-- `beyond` is the first transaction that was not looked at: the oldest one still under way (see history/sql/follow.sql)
-- at the latest. There is always a row, so that a reader gets on where nothing happened. Planned with its values: a plan
-- for any position might read all that a space has ever seen.
WITH horizon AS MATERIALIZED (
    SELECT
        least(
            pg_snapshot_xmin(pg_current_snapshot())::text::bigint, $1::bigint + $3::bigint, $4::bigint + 1
        )::text::xid8 AS beyond,
        clock_timestamp() AS now
)
SELECT
    horizon.beyond::text::bigint AS beyond,
    horizon.now,
    news.commit_position::text::bigint AS commit_position, news.id, news.txid::text::bigint AS txid, news.at, news.kind, news.space_id,
    news.lock_name, news.fencing_token, news.owner, news.metadata,
    -- As it is now, if the lease is still the lock's: the history does not know when a lease runs out.
    octo_effective_expiry(lock.expires_at, lock.bound_session_id) AS expires_at
FROM horizon
LEFT JOIN LATERAL (
    SELECT commit_position, id, coalesce(txid, commit_position) AS txid, at, kind, space_id, lock_name, fencing_token, owner, metadata
    FROM octo_event
    WHERE octo_event.commit_position >= $1::bigint::text::xid8
      AND (octo_event.commit_position > $1::bigint::text::xid8 OR octo_event.id > $2::bigint)
      AND octo_event.commit_position < horizon.beyond
      AND (octo_event.commit_position < $4::bigint::text::xid8 OR octo_event.id <= $5::bigint)
      AND octo_event.space_id = ANY ($6::bigint[])
      AND octo_event.lock_name IS NOT NULL
      AND ($7::text IS NULL OR octo_event.lock_name = $7)
      AND octo_event.kind IN ('acquired', 'released', 'expired', 'force_released')
    ORDER BY octo_event.commit_position, octo_event.id
    LIMIT $8::int
) AS news ON true
LEFT JOIN octo_lock AS lock ON news.kind = 'acquired'
    AND lock.space_id = news.space_id AND lock.name = news.lock_name AND lock.fencing_token = news.fencing_token
ORDER BY news.commit_position, news.id
