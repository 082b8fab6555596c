-- Finds sessions that are over and have not been cleaned up. One row: how many were checked, and which are over.
--
-- $1 is the maximum number of sessions to check. As with a lock, a keepalive never moves a session's timer. A session that
-- is active is checked again when it expires; one that is over is found again until end_and_hand_over.sql clears its timer.
WITH due AS MATERIALIZED (
    SELECT id, ended_at, expires_at
    FROM octo_session
    WHERE next_sweep_at <= statement_timestamp()
    ORDER BY next_sweep_at
    LIMIT $1::int
    FOR NO KEY UPDATE SKIP LOCKED
),
clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now, checked FROM (SELECT count(*)::int AS checked FROM due) AS all_locked
),
rescheduled AS (
    UPDATE octo_session AS session SET next_sweep_at = due.expires_at
    FROM due CROSS JOIN clock
    WHERE session.id = due.id AND due.ended_at IS NULL AND due.expires_at > clock.now
)
SELECT
    clock.checked,
    (
        SELECT coalesce(array_agg(due.id), '{}') FROM due
        WHERE due.ended_at IS NOT NULL OR due.expires_at <= clock.now
    ) AS session_ids
FROM clock
