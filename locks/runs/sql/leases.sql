-- The live leases of a run's actors, of plain names too.
SELECT
    lock.name, lock.fencing_token, lock.owner, lock.metadata, lock.acquired_at, lock.renewed_at, actor.name AS holder,
    actor.layer_id,
    octo_effective_expiry(lock.expires_at, lock.bound_session_id) AS expires_at,
    (
        SELECT count(*) FROM octo_waiter AS waiter
        WHERE waiter.space_id = lock.space_id AND waiter.name = lock.name AND waiter.handed_lease_id IS NULL
    ) AS waiters
FROM octo_run_actor AS actor
JOIN octo_lock AS lock ON lock.session_id = actor.session_id
WHERE actor.run_id = %(run_id)s
  AND octo_effective_expiry(lock.expires_at, lock.bound_session_id) > clock_timestamp()
ORDER BY lock.name
