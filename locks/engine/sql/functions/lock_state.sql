-- The state of each lock, by one set of rules for pages, lists and background checks.
--
-- A lease ends at its own expiry or with the session it is bound to, whichever comes first: `effective_expires_at`
-- (octo_effective_expiry gives the same for a single lock; this join suits a hundred thousand). `effective_ttl` is the TTL
-- of the one that ends first. `last_heartbeat_at` is the last renewal of the lease or keepalive of its session.
--
-- `heartbeat_due_at`: a holder is late after the heartbeat that the server advised, plus a grace. Advised is half of the
-- TTL for a renewal and a third for a session's keepalive (KEEPALIVES_PER_TTL in locks/api). The grace of a tenth of the TTL
-- covers timer jitter and the request itself; it is less than the sixth of the TTL between the advised renewal and the state
-- `expiring`, so a lock is late before it is expiring.
--
-- A lease that a person has reserved, without a token, is not renewed: it is never late, and never `expiring`.
--
-- `severity` orders the states by urgency: 1 overdue, 2 expiring (less than 30 s and less than a third of its time left, so
-- a renewal was missed), 3 cooldown, 4 held, 5 free. The first comparison decides nearly every row.
CREATE VIEW octo_lock_state_v2 AS
SELECT
    *,
    CASE
        WHEN effective_expires_at > statement_timestamp() + interval '30 seconds' THEN 4
        WHEN effective_expires_at > statement_timestamp() + effective_ttl * interval '1 second' / 3 THEN 4
        WHEN effective_expires_at > statement_timestamp() THEN CASE WHEN token_id IS NULL THEN 4 ELSE 2 END
        WHEN coalesce(available_at, effective_expires_at + lock_delay_seconds * interval '1 second')
             > statement_timestamp() THEN 3
        WHEN lease_id IS NOT NULL THEN 1
        ELSE 5
    END AS severity,
    effective_expires_at > statement_timestamp() AND heartbeat_due_at > statement_timestamp() AS is_heartbeating
FROM (
    SELECT
        *,
        last_heartbeat_at + effective_ttl * CASE
            WHEN token_id IS NULL THEN interval '1 second'
            WHEN ends_with_session THEN interval '1 second' / 3 + interval '0.1 seconds'
            ELSE interval '0.5 seconds' + interval '0.1 seconds'
        END AS heartbeat_due_at
    FROM (
        SELECT
            lock.id, lock.space_id, lock.name, lock.fencing_token, lock.lease_id, lock.token_id, lock.holder_id, lock.owner,
            lock.metadata, lock.acquired_at, lock.renewed_at, lock.renewals, lock.available_at, lock.lock_delay_seconds,
            lock.session_id, lock.bound_session_id,
            least(lock.expires_at, bound.ends_at) AS effective_expires_at,
            greatest(lock.renewed_at, session.last_keepalive_at) AS last_heartbeat_at,
            coalesce(bound.ends_at < lock.expires_at, false) AS ends_with_session,
            CASE WHEN bound.ends_at < lock.expires_at THEN session.ttl_seconds ELSE lock.ttl_seconds END AS effective_ttl
        FROM octo_lock AS lock
        LEFT JOIN octo_session AS session ON session.id = lock.session_id
        CROSS JOIN LATERAL (
            SELECT CASE WHEN lock.bound_session_id IS NOT NULL THEN least(session.ended_at, session.expires_at) END AS ends_at
        ) AS bound
    ) AS lock
) AS lock;

CREATE FUNCTION octo_severity_name(severity int) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (ARRAY['overdue', 'expiring', 'cooldown', 'held', 'free'])[severity]
$$;
