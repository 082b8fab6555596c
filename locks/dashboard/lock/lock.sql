-- One lock as it is now, free or not; no row if the name was never used here. Changes nothing.
SELECT
    id,
    name,
    octo_severity_name(severity) AS state,
    fencing_token, owner, metadata, effective_ttl, acquired_at, last_heartbeat_at, effective_expires_at,
    coalesce(available_at, effective_expires_at + lock_delay_seconds * interval '1 second') AS available_at,
    renewals,
    bound_session_id IS NOT NULL AS in_session,
    (
        SELECT count(*) FROM octo_waiter
        WHERE octo_waiter.space_id = lock.space_id AND octo_waiter.name = lock.name
          AND octo_waiter.handed_lease_id IS NULL AND octo_waiter.deadline_at > statement_timestamp()
    ) AS waiters,
    statement_timestamp() AS now
FROM octo_lock_state AS lock
WHERE space_id = %(space_id)s AND name = %(name)s
