-- Finds sessions that are over and whose end was not seen to yet. One row: how many were looked at, and which are over.
--
-- $1 is the most sessions to look at. Like a lock's, the timer of a session is never moved by a heartbeat. A session that
-- lives is looked at again when it ends; one that is over keeps its timer, and is found again, until end_and_hand_over.sql clears it.
WITH due AS MATERIALIZED (
    SELECT id, ended_at, expires_at
    FROM octo_session
    WHERE next_sweep_at <= statement_timestamp()
    ORDER BY next_sweep_at
    LIMIT $1::int
    FOR NO KEY UPDATE SKIP LOCKED
),
clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now, found FROM (SELECT count(*)::int AS found FROM due) AS all_locked
),
put_off AS (
    UPDATE octo_session AS session SET next_sweep_at = due.expires_at
    FROM due CROSS JOIN clock
    WHERE session.id = due.id AND due.ended_at IS NULL AND due.expires_at > clock.now
)
SELECT
    clock.found,
    (
        SELECT coalesce(array_agg(due.id), '{}') FROM due
        WHERE due.ended_at IS NOT NULL OR due.expires_at <= clock.now
    ) AS over
FROM clock
