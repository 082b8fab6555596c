-- Replays the history and compares it with the lock table. A row for each contradiction, the earliest first.
--
-- $1 how many contradictions at most
--
-- One statement, so that history and locks are read in one snapshot. A lease is identified by its fencing token. Events
-- before the oldest month that is kept have been purged: of a lease that was acquired before `history_start` only the end
-- is there.
WITH history_start AS MATERIALIZED (
    SELECT min(month) AS at FROM octo_event_month
),
lease AS MATERIALIZED (
    SELECT
        space_id, lock_name, fencing_token,
        count(*) FILTER (WHERE kind = 'acquired') AS acquisitions,
        count(*) FILTER (WHERE kind <> 'acquired') AS ends,
        min(at) FILTER (WHERE kind = 'acquired') AS acquired_at,
        min(at) FILTER (WHERE kind <> 'acquired') AS ended_at,
        min(held_ms) FILTER (WHERE kind <> 'acquired') AS held_ms,
        min(recorded_late_ms) FILTER (WHERE kind = 'expired') AS recorded_late_ms,
        min(holder_id) AS holder_id,
        min(holder_id) = max(holder_id) AS one_holder
    FROM octo_event
    WHERE kind IN ('acquired', 'released', 'expired', 'force_released')
    GROUP BY space_id, lock_name, fencing_token
),
in_order AS (
    SELECT
        lease.*,
        lead(fencing_token) OVER by_token AS next_token,
        lead(acquired_at) OVER by_token AS next_acquired_at
    FROM lease
    WINDOW by_token AS (PARTITION BY space_id, lock_name ORDER BY fencing_token)
),
contradiction AS (
    -- The history on its own.
    SELECT
        in_order.space_id, in_order.lock_name, in_order.fencing_token, coalesce(acquired_at, ended_at) AS at,
        CASE
            WHEN in_order.fencing_token IS NULL THEN 'has no fencing token'
            WHEN acquisitions > 1 THEN 'was acquired ' || acquisitions || ' times'
            WHEN ends > 1 THEN 'ended ' || ends || ' times'
            WHEN acquisitions = 0 AND ended_at - coalesce(held_ms, 0) * interval '1 millisecond' > history_start.at
                THEN 'ended but was never acquired'
            WHEN NOT one_holder THEN 'ended under another holder than it began'
            WHEN ended_at < acquired_at THEN 'ended before it was acquired'
            WHEN recorded_late_ms < 0 THEN 'expired before its time'
            WHEN next_token IS NOT NULL AND ended_at IS NULL
                THEN 'had no end when ' || next_token || ' was acquired'
            WHEN next_acquired_at < ended_at THEN 'overlaps ' || next_token || ', which was acquired before it ended'
            WHEN next_acquired_at < acquired_at THEN 'was acquired after ' || next_token || ', a higher token'
        END AS problem
    FROM in_order CROSS JOIN history_start
    UNION ALL
    -- The last lease of each name, compared with its lock.
    SELECT
        last.space_id, last.lock_name, last.fencing_token, coalesce(last.ended_at, last.acquired_at),
        CASE
            WHEN lock.id IS NULL THEN
                CASE WHEN last.ended_at IS NULL THEN 'has no end, and there is no such lock' END
            WHEN lock.fencing_token <> last.fencing_token
                THEN 'is the last in the history, but the lock has token ' || lock.fencing_token
            WHEN lock.lease_id IS NULL AND last.ended_at IS NULL THEN 'has no end, but the lock is free'
            WHEN lock.lease_id IS NOT NULL AND last.ended_at IS NOT NULL THEN 'has ended, but the lock is held'
            WHEN lock.holder_id <> last.holder_id THEN 'has another holder than the lock'
            WHEN lock.acquired_at <> last.acquired_at THEN 'was acquired at another time than the lock says'
        END
    FROM in_order AS last
    LEFT JOIN octo_lock AS lock ON lock.space_id = last.space_id AND lock.name = last.lock_name
    WHERE last.next_token IS NULL
    UNION ALL
    -- Locks without history.
    SELECT lock.space_id, lock.name, lock.fencing_token, lock.updated_at, 'is in the lock table only'
    FROM octo_lock AS lock CROSS JOIN history_start
    WHERE lock.fencing_token > 0
      AND coalesce(lock.acquired_at, lock.updated_at) > history_start.at
      AND NOT EXISTS (SELECT FROM lease WHERE lease.space_id = lock.space_id AND lease.lock_name = lock.name)
)
SELECT
    space_id, lock_name, fencing_token, problem, at,
    (SELECT count(*) FROM lease)::bigint AS leases
FROM contradiction
WHERE problem IS NOT NULL
UNION ALL
-- Always a row, for the number of leases.
SELECT NULL, NULL, NULL, NULL, NULL, (SELECT count(*) FROM lease)::bigint
ORDER BY at NULLS LAST, space_id, lock_name
LIMIT $1::int + 1
