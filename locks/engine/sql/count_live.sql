-- Counts the live locks of spaces that were used lately, so that acquire can enforce their limits without counting.
--
-- $1 is an array of space ids. A count less than a second old is kept, and so is one that another server is writing.
-- Beyond the limit the exact number does not matter.
WITH due AS MATERIALIZED (
    SELECT space.id AS space_id, space.max_live_locks
    FROM octo_space AS space
    LEFT JOIN octo_space_usage AS usage ON usage.space_id = space.id
    WHERE space.id = ANY ($1::bigint[])
      AND (usage.counted_at IS NULL OR usage.counted_at < clock_timestamp() - interval '900 milliseconds')
    ORDER BY space.id
)
INSERT INTO octo_space_usage AS usage (space_id, live_locks, counted_at)
SELECT due.space_id, live.counted, clock_timestamp()
FROM due
CROSS JOIN LATERAL (
    SELECT count(*)::int AS counted
    FROM (
        SELECT FROM octo_lock AS lock
        WHERE lock.space_id = due.space_id AND lock.lease_id IS NOT NULL AND lock.expires_at > now()
          AND (lock.bound_session_id IS NULL
               OR lock.bound_session_id <> ALL (ARRAY(SELECT id FROM octo_expired_session)))
        LIMIT due.max_live_locks
    ) AS held
) AS live
ON CONFLICT (space_id) DO UPDATE SET live_locks = excluded.live_locks, counted_at = excluded.counted_at
WHERE usage.counted_at < excluded.counted_at - interval '900 milliseconds'
