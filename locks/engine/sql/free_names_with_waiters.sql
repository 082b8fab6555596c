-- The names for which requests wait at this server although nobody holds them any more: a lease ran out, alone or with its
-- session, was not picked up, or a delay is over. To be settled.
--
-- $1 is the server. A lock that somebody is working on is passed over: settling it would make the others wait.
SELECT lock.space_id, lock.name
FROM (
    SELECT DISTINCT space_id, name FROM octo_waiter WHERE server_id = $1::uuid AND handed_lease_id IS NULL
) AS waited_for
CROSS JOIN LATERAL (
    SELECT octo_lock.space_id, octo_lock.name
    FROM octo_lock
    WHERE octo_lock.space_id = waited_for.space_id AND octo_lock.name = waited_for.name
      AND coalesce(
          coalesce(
              octo_lock.available_at,
              octo_effective_expiry(octo_lock.expires_at, octo_lock.bound_session_id) + octo_lock.lock_delay_seconds * interval '1 second'
          ) <= clock_timestamp(),
          true)
    LIMIT 1
    FOR NO KEY UPDATE SKIP LOCKED
) AS lock
