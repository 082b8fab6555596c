-- The state of each lock, for pages. A lease ends at its own expiry or with the session it is bound to:
-- `effective_expires_at` (octo_effective_expiry gives the same for one lock; this join suits a hundred thousand).
-- `effective_ttl` is the TTL of the one that ends first, `last_heartbeat_at` the last heartbeat of either.
-- `severity` orders the states by urgency: 1 overdue, 2 expiring (less than 30 s and less than a third of its time left, so
-- a renewal was missed), 3 cooling down, 4 held, 5 free. The first comparison decides nearly every row.
CREATE VIEW octo_lock_state AS
SELECT
    *,
    CASE
        WHEN effective_expires_at > statement_timestamp() + interval '30 seconds' THEN 4
        WHEN effective_expires_at > statement_timestamp() + effective_ttl * interval '1 second' / 3 THEN 4
        WHEN effective_expires_at > statement_timestamp() THEN 2
        WHEN coalesce(available_at, effective_expires_at + lock_delay_seconds * interval '1 second')
             > statement_timestamp() THEN 3
        WHEN lease_id IS NOT NULL THEN 1
        ELSE 5
    END AS severity
FROM (
    SELECT
        lock.id, lock.space_id, lock.name, lock.fencing_token, lock.lease_id, lock.token_id, lock.holder_id, lock.owner,
        lock.metadata, lock.acquired_at, lock.renewed_at, lock.renewals, lock.available_at, lock.lock_delay_seconds,
        lock.session_id, lock.bound_session_id,
        least(lock.expires_at, session.ended_at, session.expires_at) AS effective_expires_at,
        greatest(lock.renewed_at, session.last_keepalive_at) AS last_heartbeat_at,
        CASE WHEN least(session.ended_at, session.expires_at) < lock.expires_at THEN session.ttl_seconds
             ELSE lock.ttl_seconds END AS effective_ttl
    FROM octo_lock AS lock
    LEFT JOIN octo_session AS session ON session.id = lock.bound_session_id
) AS lock;

CREATE FUNCTION octo_severity_name(severity int) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (ARRAY['overdue', 'expiring', 'delayed', 'held', 'free'])[severity]
$$;
