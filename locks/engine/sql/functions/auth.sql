-- Who sends a request, and why it is refused, if it is. Always one row. The digest is hexadecimal. A null scope or name is not
-- checked. `has_namespace_queue`: the name is of a namespace (namespaces.sql) and requests may wait for names that overlap.
CREATE FUNCTION octo_auth_v2(digest text, scope text, name text) RETURNS TABLE (
    token_id bigint, public_id text, token_name text, prefixes text[], space_id bigint, team_id bigint,
    default_ttl_seconds int, max_ttl_seconds int, max_hold_seconds int, max_metadata_length int,
    octostore_compatibility boolean, requests_per_second int, space_is_full boolean, namespaces jsonb,
    has_namespace_queue boolean, actor_session_id uuid, is_draining boolean, refusal text, history_is_full boolean,
    frozen_until timestamptz
) LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT
        live.token_id, live.public_id, live.token_name, live.prefixes, live.space_id, live.team_id,
        live.default_ttl_seconds, live.max_ttl_seconds, live.max_hold_seconds, live.max_metadata_length,
        live.octostore_compatibility, live.requests_per_second, live.space_is_full, live.namespaces,
        live.namespace_queue_until > clock_timestamp()
            AND live.namespaces ? left(octo_auth_v2.name, strpos(octo_auth_v2.name, ':')),
        live.actor_session_id, live.is_draining,
        CASE
            WHEN live.token_id IS NULL THEN 'unauthenticated'
            WHEN NOT octo_auth_v2.scope = ANY (live.scopes) THEN 'scope_missing'
            WHEN NOT octo_name_matches_prefixes(octo_auth_v2.name, live.prefixes) THEN 'name_not_allowed'
        END,
        live.history_is_full, live.frozen_until
    FROM (SELECT) AS request
    LEFT JOIN LATERAL (
        SELECT * FROM octo_live_token_v2 WHERE octo_live_token_v2.digest = decode(octo_auth_v2.digest, 'hex') LIMIT 1
    ) AS live ON true
$$;

-- The same for a request that acquires, with the limits on what it asks for and the defaults for what it leaves open.
-- `session_id` is the session of the lease: all leases of a run's actor end with the actor's own session.
CREATE FUNCTION octo_acquire_auth_v2(
    digest text, name text, requested_ttl_seconds int, metadata text, requested_owner text, session uuid
) RETURNS TABLE (
    token_id bigint, public_id text, token_name text, prefixes text[], space_id bigint, team_id bigint,
    max_ttl_seconds int, max_hold_seconds int, max_metadata_length int, octostore_compatibility boolean,
    requests_per_second int, space_is_full boolean, namespaces jsonb, owner text, ttl_seconds int, session_id uuid,
    is_actor boolean,
    session_expires_at timestamptz, refusal text, frozen_until timestamptz
) LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT
        auth.token_id, auth.public_id, auth.token_name, auth.prefixes, auth.space_id, auth.team_id,
        auth.max_ttl_seconds, auth.max_hold_seconds, auth.max_metadata_length, auth.octostore_compatibility,
        auth.requests_per_second, auth.space_is_full, auth.namespaces,
        coalesce(requested_owner, own_session.owner, auth.token_name),
        coalesce(requested_ttl_seconds, auth.default_ttl_seconds),
        coalesce(auth.actor_session_id, octo_acquire_auth_v2.session),
        auth.actor_session_id IS NOT NULL,
        own_session.expires_at,
        coalesce(auth.refusal, CASE
            WHEN requested_ttl_seconds > auth.max_ttl_seconds THEN 'ttl_too_long'
            WHEN char_length(octo_acquire_auth_v2.metadata) > auth.max_metadata_length THEN 'metadata_too_long'
            WHEN coalesce(auth.actor_session_id, octo_acquire_auth_v2.session) IS NOT NULL
                 AND own_session.expires_at IS NULL THEN 'no_session'
            WHEN own_session.expires_at <= clock_timestamp() THEN 'session_over'
            WHEN auth.history_is_full THEN 'history_full'
            WHEN auth.is_draining THEN 'run_draining'
        END),
        auth.frozen_until
    FROM octo_auth_v2(octo_acquire_auth_v2.digest, 'locks:write', octo_acquire_auth_v2.name) AS auth
    LEFT JOIN LATERAL (
        -- By its id alone: a token can have many sessions, and this may be planned when it has none.
        SELECT octo_session.token_id, octo_session.owner, least(ended_at, octo_session.expires_at) AS expires_at
        FROM octo_session
        WHERE octo_session.id = coalesce(auth.actor_session_id, octo_acquire_auth_v2.session) LIMIT 1
    ) AS own_session ON octo_token_owns_lease(auth.token_id, own_session.token_id)
$$;

-- The same for a person who reserves a lock, and was authorised for the space before. There is no token, and an access list,
-- which is of tokens, excludes none (octo_acl_allows). The `public_id` is what octo_person_holder_id makes the holder id of.
CREATE FUNCTION octo_reserve_auth(
    person bigint, space bigint, person_name text, requested_ttl_seconds int, metadata text
) RETURNS TABLE (
    token_id bigint, public_id text, token_name text, prefixes text[], space_id bigint, team_id bigint,
    max_ttl_seconds int, max_hold_seconds int, max_metadata_length int, octostore_compatibility boolean,
    requests_per_second int, space_is_full boolean, namespaces jsonb, owner text, ttl_seconds int, session_id uuid,
    is_actor boolean,
    session_expires_at timestamptz, refusal text, frozen_until timestamptz
) LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT
        NULL::bigint, 'user:' || person, person_name, '{}'::text[], space.id, space.team_id, space.max_ttl_seconds,
        space.max_hold_seconds, space.max_metadata_length, space.octostore_compatibility, space.requests_per_second,
        octo_space_lacks_room(space.id, 1), space.namespaces, person_name, requested_ttl_seconds, NULL::uuid, false,
        NULL::timestamptz,
        CASE
            WHEN space.archived_at IS NOT NULL THEN 'unauthenticated'
            WHEN requested_ttl_seconds > space.max_ttl_seconds THEN 'ttl_too_long'
            WHEN char_length(octo_reserve_auth.metadata) > space.max_metadata_length THEN 'metadata_too_long'
            WHEN usage.events >= space.max_events THEN 'history_full'
        END,
        space.frozen_until
    FROM octo_space AS space
    LEFT JOIN octo_space_usage AS usage ON usage.space_id = space.id
    WHERE space.id = octo_reserve_auth.space
$$;
