-- Whether an access list includes a token: by `user:` and the token's name, or by `token:` and its public id or that of a token
-- that it took over from by rotation.
CREATE FUNCTION octo_acl_includes(acl text[], token bigint) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE COST 20 AS $$
    SELECT EXISTS (
        SELECT FROM octo_token AS own
        JOIN octo_token AS listed
            ON listed.space_id = own.space_id AND listed.name = own.name AND listed.id <= own.id
        WHERE own.id = token
          AND ('user:' || own.name = ANY (acl)
               OR ('token:' || listed.public_id = ANY (acl) AND octo_token_owns_lease(own.id, listed.id)))
    )
$$;

-- Whether a token may acquire a lock with this access list. Inlined, so that a lock without one costs one comparison. A person,
-- without a token, may: operators decide about access lists.
CREATE FUNCTION octo_acl_allows(acl text[], token bigint) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT acl IS NULL OR token IS NULL OR octo_acl_includes(acl, token)
$$;

-- The state of a locked row for a request that wants to acquire it, by the access list that the row has now: `not_listed` if it
-- excludes the token, `acl_conflict` if the request brings another list than the one that the lock or the caller's lease has.
-- A caller that is recognised keeps its lease, and the retry of a request that was granted brings the list that it set.
CREATE FUNCTION octo_state_under_acl(
    state text, acl text[], requested_acl text[], token bigint, is_retry boolean
) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN acl IS NULL AND requested_acl IS NULL THEN state
        WHEN state <> 'recognised' AND NOT octo_acl_allows(acl, token) THEN 'not_listed'
        WHEN (requested_acl <> acl OR (acl IS NULL AND state = 'recognised')) AND is_retry IS NOT TRUE THEN 'acl_conflict'
        ELSE state
    END
$$;
