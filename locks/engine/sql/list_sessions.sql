-- The sessions of a token: one of them, or those that live, the latest first. Changes nothing.
--
-- $1 digest (hex) · $2 session or null for all · $3 the most · There is always a row: without a session it carries the
-- verdict only.
SELECT
    CASE
        WHEN caller.refusal IS NOT NULL THEN caller.refusal
        WHEN session.id IS NULL AND $2::uuid IS NOT NULL THEN 'no_session'
        ELSE 'listed'
    END AS verdict,
    session.id AS session_id, session.owner, session.metadata, session.ttl_seconds, session.created_at,
    session.last_keepalive_at, session.expires_at, session.ended_at,
    CASE WHEN session.active THEN (
        SELECT count(*)::int FROM octo_lock AS lock
        WHERE lock.session_id = session.id AND lock.expires_at > clock.now
    ) ELSE 0 END AS lock_count,
    coalesce(session.active, false) AS active,
    clock.now,
    caller.space_id,
    caller.max_metadata_length,
    caller.requests_per_second
FROM (SELECT clock_timestamp() AS now) AS clock
CROSS JOIN (
    SELECT
        live.*,
        CASE
            WHEN live.token_id IS NULL THEN 'unauthenticated'
            WHEN NOT 'locks:read' = ANY (live.scopes) THEN 'scope_missing'
        END AS refusal
    FROM (SELECT decode($1, 'hex') AS digest) AS presented
    LEFT JOIN octo_live_token AS live USING (digest)
) AS caller
LEFT JOIN LATERAL (
    SELECT octo_session.*, ended_at IS NULL AND expires_at > clock.now AS active
    FROM octo_session
    WHERE caller.refusal IS NULL
      AND octo_session.token_id = caller.token_id
      AND octo_session.id = coalesce($2::uuid, octo_session.id)
      AND ($2::uuid IS NOT NULL OR (octo_session.ended_at IS NULL AND octo_session.expires_at > clock.now))
    ORDER BY octo_session.created_at DESC, octo_session.id
    LIMIT $3::int
) AS session ON true
ORDER BY session.created_at DESC, session.id
