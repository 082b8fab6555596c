-- A lock as pages show it: a column for each field of LockRow (locks/services/lock_row.py). A query that selects fewer
-- columns pays for those only: the planner merges the view into it.
CREATE VIEW octo_lock_row_v2 AS
SELECT
    lock.id, lock.space_id, lock.name,
    octo_severity_name(lock.severity) AS state,
    lock.fencing_token, lock.owner, lock.holder_id, lock.metadata, lock.effective_ttl, lock.acquired_at,
    lock.last_heartbeat_at, lock.is_heartbeating, lock.effective_expires_at,
    coalesce(lock.available_at, lock.effective_expires_at + lock.lock_delay_seconds * interval '1 second') AS available_at,
    lock.renewals,
    lock.bound_session_id IS NOT NULL AS in_session,
    lock.lease_id IS NOT NULL AND lock.token_id IS NULL AS is_reserved,
    (
        SELECT count(*) FROM octo_queued_waiter AS waiter
        WHERE waiter.space_id = lock.space_id AND waiter.name = lock.name
    ) AS waiters,
    statement_timestamp() AS now
FROM octo_lock_state_v2 AS lock;
