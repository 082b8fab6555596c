-- Names that requests wait for at this server process although they are free: a lease expired, alone or with its session, was
-- not claimed, or a lock delay or a freeze is over. They have to be handed over. A row without a name is a space in which a
-- name of a namespace that is waited for here may be next (namespace_handovers.sql).
--
-- $1 is the server process. A lock whose row is locked by another transaction is skipped.
SELECT lock.space_id, lock.name
FROM (
    SELECT DISTINCT waiter.space_id, waiter.name, space.frozen_until
    FROM octo_waiter AS waiter
    JOIN octo_space AS space ON space.id = waiter.space_id
    WHERE waiter.server_id = $1::uuid AND waiter.handed_lease_id IS NULL
      AND NOT space.namespaces ? octo_namespace(waiter.name)
) AS queue
CROSS JOIN LATERAL (
    SELECT octo_lock.space_id, octo_lock.name
    FROM octo_lock
    WHERE octo_lock.space_id = queue.space_id AND octo_lock.name = queue.name
      AND octo_freeze_of(queue.space_id, queue.frozen_until, queue.name) IS NULL
      AND coalesce(
          octo_available_at(
              octo_lock.available_at, octo_effective_expiry(octo_lock.expires_at, octo_lock.bound_session_id),
              octo_lock.lock_delay_seconds) <= clock_timestamp(),
          true)
    LIMIT 1
    FOR NO KEY UPDATE SKIP LOCKED
) AS lock
UNION ALL
SELECT DISTINCT waiter.space_id, NULL
FROM octo_waiter AS waiter
JOIN octo_space AS space ON space.id = waiter.space_id
WHERE waiter.server_id = $1::uuid AND waiter.handed_lease_id IS NULL
  AND space.namespaces ? octo_namespace(waiter.name)
