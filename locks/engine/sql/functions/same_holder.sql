-- Whether a token took over from another by rotation, the overlap included: every token of that name from the one to the
-- other was rotated and not revoked.
CREATE FUNCTION octo_is_successor(token bigint, earlier_token bigint) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE COST 20 AS $$
    SELECT coalesce(
        bool_or(earlier.id = earlier_token) AND bool_and(earlier.rotated_at IS NOT NULL AND earlier.revoked_at IS NULL),
        false)
    FROM octo_token AS successor
    JOIN octo_token AS earlier
        ON earlier.space_id = successor.space_id AND earlier.name = successor.name
        AND earlier.id >= earlier_token AND earlier.id < successor.id
    WHERE successor.id = token
$$;

-- Whether a lease or a session belongs to a token: the one that took it, or its successor. Inlined, so that a token's own lease
-- costs one comparison.
CREATE FUNCTION octo_token_owns_lease(token bigint, lease_token bigint) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT lease_token = token OR octo_is_successor(token, lease_token)
$$;

-- Whether a request comes from the holder of a lease, idempotency keys aside: from the same session. On OctoStore's terms
-- also from the same token, if neither the lease nor the request has a session.
CREATE FUNCTION octo_is_same_holder(
    token bigint, session uuid, lease_token bigint, lease_session uuid, octostore_compatibility boolean
) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT lease_session = session
        OR (octostore_compatibility AND session IS NULL AND lease_session IS NULL
            AND octo_token_owns_lease(token, lease_token))
$$;
