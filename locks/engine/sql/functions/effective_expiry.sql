CREATE FUNCTION octo_session_ends_at(session uuid) RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE COST 10 AS $$
    SELECT least(ended_at, expires_at) FROM octo_session WHERE id = session
$$;

-- When a lease ends: at its own expiry, or with the session it is bound to. Inlined, so that a lease without a session
-- costs one comparison.
CREATE FUNCTION octo_effective_expiry(expires_at timestamptz, bound_session_id uuid) RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN bound_session_id IS NULL THEN expires_at
                ELSE least(expires_at, octo_session_ends_at(bound_session_id)) END
$$;
