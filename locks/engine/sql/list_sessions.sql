-- The sessions of a token and of those that it took over from by rotation: one of them, or those that are active, the latest first. Changes nothing.
--
-- $1 digest (hex) · $2 session or null for all · $3 limit · There is always a row: without a session it carries the
-- verdict only.
SELECT
    CASE
        WHEN auth.refusal IS NOT NULL THEN auth.refusal
        WHEN session.id IS NULL AND $2::uuid IS NOT NULL THEN 'no_session'
        ELSE 'listed'
    END AS verdict,
    session.id AS session_id, octo_holder_id(auth.public_id, NULL)::uuid AS user_id, session.owner, session.metadata,
    session.ttl_seconds, session.created_at, session.last_keepalive_at, session.expires_at, session.ended_at,
    CASE WHEN session.active THEN (
        SELECT count(*)::int FROM octo_lock AS lock
        WHERE lock.session_id = session.id AND lock.expires_at > clock.now
    ) ELSE 0 END AS lock_count,
    coalesce(session.active, false) AS active,
    clock.now,
    auth.space_id,
    auth.max_metadata_length,
    auth.requests_per_second
FROM (SELECT clock_timestamp() AS now) AS clock
CROSS JOIN octo_auth_v2($1, 'locks:read', NULL) AS auth
LEFT JOIN LATERAL (
    SELECT octo_session.*, ended_at IS NULL AND expires_at > clock.now AS active
    FROM octo_session
    WHERE auth.refusal IS NULL
      AND octo_session.token_id = ANY (ARRAY(
          SELECT id FROM octo_token
          WHERE octo_token.space_id = auth.space_id AND octo_token.name = auth.token_name
            AND octo_token_owns_lease(auth.token_id, octo_token.id)))
      AND octo_session.id = coalesce($2::uuid, octo_session.id)
      AND ($2::uuid IS NOT NULL OR (octo_session.ended_at IS NULL AND octo_session.expires_at > clock.now))
    ORDER BY octo_session.created_at DESC, octo_session.id
    LIMIT $3::int
) AS session ON true
ORDER BY session.created_at DESC, session.id
