-- Whether so many more leases exceed the space's limit of live locks. The count that the servers write once a second decides
-- only where the limit is far away; near it, the locks are counted here.
CREATE FUNCTION octo_space_lacks_room(space bigint, wanted bigint) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN wanted = 0 THEN false
        WHEN usage.counted_at > clock_timestamp() - interval '3 seconds'
             AND usage.live_locks + 10000 + wanted <= octo_space.max_live_locks THEN false
        ELSE wanted + (
            SELECT count(*)
            FROM (
                SELECT FROM octo_lock AS lock
                WHERE lock.space_id = octo_space_lacks_room.space AND lock.lease_id IS NOT NULL
                  AND lock.expires_at > clock_timestamp()
                  AND (lock.bound_session_id IS NULL
                       OR lock.bound_session_id <> ALL (ARRAY(SELECT id FROM octo_expired_session)))
                LIMIT octo_space.max_live_locks
            ) AS held
        ) > octo_space.max_live_locks
    END
    FROM octo_space
    LEFT JOIN octo_space_usage AS usage ON usage.space_id = octo_space.id
    WHERE octo_space.id = octo_space_lacks_room.space
$$;

-- Whether a name that has no row yet exceeds the space's limit of names, by the count of the last minute.
CREATE FUNCTION octo_names_are_full(space bigint) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT EXISTS (
        SELECT FROM octo_space_usage AS usage
        JOIN octo_space ON octo_space.id = usage.space_id
        WHERE usage.space_id = octo_names_are_full.space AND usage.names >= octo_space.max_names
    )
$$;
