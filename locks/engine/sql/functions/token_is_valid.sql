-- Whether a token can be used at that moment.
CREATE FUNCTION octo_token_is_valid(
    revoked_at timestamptz, expires_at timestamptz, space_archived_at timestamptz, at timestamptz
) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT revoked_at IS NULL AND space_archived_at IS NULL AND coalesce(expires_at > at, true)
$$;
