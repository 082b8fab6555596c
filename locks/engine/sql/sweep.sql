-- Sweep: clears leases that have expired and records the end of each. One row: what was found.
--
-- $1 is the maximum number of leases to check.
--
-- next_sweep_at is a timer that a renewal never moves later, so a lease found here may still be live; then the timer is set
-- to its expiry. SKIP LOCKED: a row that is locked is being renewed, released, acquired (which records the expiry itself) or
-- swept, and what is left of it is found the next time. This statement never waits for a row, so several sweeps can run at
-- once, and the row lock gives each lease to one of them. The clock is read after the rows are locked, as in acquire.sql. A
-- lock that may have waiters, or whose lease is bound to a session, is only returned: end_and_hand_over.sql ends its lease.
WITH due AS MATERIALIZED (
    SELECT
        lock.id, lock.space_id, lock.name, lock.fencing_token, lock.owner, lock.holder_id, lock.metadata,
        lock.token_id, lock.acquired_at, lock.expires_at, lock.lock_delay_seconds,
        lock.last_waiter_id IS NOT NULL OR lock.bound_session_id IS NOT NULL AS needs_handover
    FROM octo_lock AS lock
    -- The statement's own time, because clock_timestamp() cannot be used in an index condition.
    WHERE lock.lease_id IS NOT NULL AND lock.next_sweep_at <= statement_timestamp()
    ORDER BY lock.next_sweep_at
    LIMIT $1::int
    FOR NO KEY UPDATE SKIP LOCKED
),
clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now, checked FROM (SELECT count(*)::int AS checked FROM due) AS all_locked
),
expired AS MATERIALIZED (
    SELECT due.*, clock.now FROM due CROSS JOIN clock WHERE due.expires_at <= clock.now AND NOT due.needs_handover
),
updated AS (
    UPDATE octo_lock AS lock SET
        lease_id = NULL, holder_id = NULL, token_id = NULL, session_id = NULL, bound_session_id = NULL, owner = NULL,
        metadata = NULL, ttl_seconds = NULL, acquired_at = NULL, renewed_at = NULL, expires_at = NULL, renewals = NULL,
        idempotency_digest = NULL, request_digest = NULL, next_sweep_at = NULL,
        -- From the expiry, not from now: a late sweep does not extend the delay. Its length stays in the row for answers.
        available_at = octo_delay_end(expired.expires_at, expired.lock_delay_seconds), updated_at = expired.now
    FROM expired
    WHERE lock.id = expired.id
),
rescheduled AS (
    UPDATE octo_lock AS lock SET next_sweep_at = due.expires_at
    FROM due CROSS JOIN clock
    WHERE lock.id = due.id AND due.expires_at > clock.now
),
recorded AS (
    INSERT INTO octo_event_entry
    SELECT event.*
    FROM expired
    JOIN octo_space AS space ON space.id = expired.space_id
    CROSS JOIN LATERAL octo_end_event(
        'expired', expired.now, space.team_id, expired.space_id, expired.name, expired.fencing_token, expired.owner,
        expired.holder_id, expired.metadata, expired.token_id, expired.acquired_at, expired.expires_at, 'task', NULL
    ) AS event
    ORDER BY expired.expires_at, expired.id
)
SELECT
    clock.checked,
    (SELECT count(*)::int FROM expired) AS expired,
    (SELECT array_agg(space_id ORDER BY space_id, name) FROM due WHERE needs_handover AND expires_at <= clock.now)
        AS spaces,
    (SELECT array_agg(name ORDER BY space_id, name) FROM due WHERE needs_handover AND expires_at <= clock.now) AS names
FROM clock
