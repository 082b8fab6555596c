-- Inspect: the state of each name, one row for each request of the batch, in its order. Changes nothing.
--
-- $1 is a JSON array of requests.Inspect. A lease that has ended, by its own expiry or with its session, is free whether
-- or not the sweep has recorded it. A free name that is frozen is `delayed`. On OctoStore's terms both are free.
SELECT
    auth.index,
    CASE
        WHEN auth.refusal IS NOT NULL THEN auth.refusal
        WHEN lock.effective_expires_at > clock.now THEN 'held'
        WHEN octo_available_at(lock.available_at, lock.effective_expires_at, lock.lock_delay_seconds) > clock.now
             AND NOT auth.octostore_compatibility THEN 'delayed'
        WHEN auth.active_freeze IS NOT NULL AND NOT auth.octostore_compatibility THEN 'delayed'
        ELSE 'free'
    END AS verdict,
    auth.name,
    CASE WHEN auth.refusal IS NULL THEN coalesce(lock.fencing_token, 0) END AS fencing_token,
    lock.holder_id,
    lock.owner,
    lock.metadata,
    lock.acquired_at,
    lock.renewed_at,
    lock.effective_expires_at AS expires_at,
    lock.session_id IS NOT NULL AS session_id_present,
    octo_open_at(
        octo_available_at(lock.available_at, lock.effective_expires_at, lock.lock_delay_seconds), auth.active_freeze
    ) AS available_at,
    CASE WHEN lock.last_waiter_id IS NOT NULL OR auth.has_namespace_queue THEN (
        SELECT count(*)::int FROM octo_waiter
        WHERE octo_waiter.space_id = auth.space_id AND octo_waiter.name = auth.name
          AND octo_waiter.handed_lease_id IS NULL
    ) ELSE 0 END AS waiters,
    CASE WHEN lock.last_waiter_id IS NOT NULL OR auth.has_namespace_queue THEN (
        SELECT json_agg(json_build_object('owner', owner, 'since', enqueued_at))
        FROM (
            SELECT owner, enqueued_at FROM octo_waiter
            WHERE octo_waiter.space_id = auth.space_id AND octo_waiter.name = auth.name
              AND octo_waiter.handed_lease_id IS NULL
            ORDER BY octo_waiter.queue_seq, octo_waiter.id
            LIMIT 100
        ) AS waiter
    ) END AS queue,
    clock.now,
    auth.space_id,
    auth.requests_per_second,
    lock.acl,
    auth.active_freeze
FROM (
    SELECT
        request.index, request.name, auth.space_id, auth.octostore_compatibility, auth.requests_per_second,
        auth.has_namespace_queue, auth.refusal, octo_freeze_of(auth.space_id, auth.frozen_until, request.name) AS active_freeze
    FROM json_to_recordset($1::json) AS request (index int, digest text, name text)
    CROSS JOIN LATERAL octo_auth_v2(request.digest, 'locks:read', request.name) AS auth
) AS auth
CROSS JOIN (SELECT clock_timestamp() AS now) AS clock
LEFT JOIN LATERAL (
    SELECT
        octo_lock.*,
        octo_effective_expiry(octo_lock.expires_at, octo_lock.bound_session_id) AS effective_expires_at
    FROM octo_lock
    WHERE auth.refusal IS NULL AND octo_lock.space_id = auth.space_id AND octo_lock.name = auth.name
    LIMIT 1
) AS lock ON true
ORDER BY auth.index
