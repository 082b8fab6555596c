-- Whether a lease of one of these names was taken with this idempotency key. Volatile on purpose: a volatile function sees
-- what was committed until it is called, not only what the snapshot of its caller shows.
CREATE FUNCTION octo_idempotency_key_in_use(space bigint, names json, token bigint, key bytea) RETURNS boolean
LANGUAGE sql VOLATILE AS $$
    SELECT EXISTS (
        SELECT FROM json_array_elements_text(names) AS requested
        JOIN octo_lock AS lock ON lock.space_id = space AND lock.name = requested
        WHERE lock.token_id = token AND lock.idempotency_digest = key AND lock.expires_at > clock_timestamp()
    )
$$;
