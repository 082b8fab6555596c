-- The actors of a run, those that have ended included, with their sessions, leases and queue places.
SELECT
    actor.id, actor.layer_id, actor.name, actor.role, token.public_id, actor.created_at, actor.ended_at,
    actor.end_reason, actor.kv_calls, actor.kv_denied, actor.lease_calls, actor.lease_denied, actor.lease_contended,
    session.last_keepalive_at, least(session.ended_at, session.expires_at) AS expires_at,
    actor.ended_at IS NULL AND coalesce(least(session.ended_at, session.expires_at) > clock.now, false) AS is_present,
    (
        SELECT count(*) FROM octo_lock AS lock
        WHERE lock.session_id = actor.session_id
          AND octo_effective_expiry(lock.expires_at, lock.bound_session_id) > clock.now
    ) AS leases,
    (
        SELECT count(*) FROM octo_waiter AS waiter
        WHERE waiter.session_id = actor.session_id AND waiter.handed_lease_id IS NULL
    ) AS waiting
FROM octo_run_actor AS actor
JOIN octo_token AS token ON token.id = actor.token_id
LEFT JOIN octo_session AS session ON session.id = actor.session_id
CROSS JOIN (SELECT clock_timestamp() AS now) AS clock
WHERE actor.run_id = %(run_id)s
ORDER BY actor.role, actor.name, actor.id
