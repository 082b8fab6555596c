-- Whether a token was replaced by rotation and its overlap with its successor is over.
CREATE FUNCTION octo_token_is_replaced(
    rotated_at timestamptz, revoked_at timestamptz, expires_at timestamptz, at timestamptz
) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT rotated_at IS NOT NULL AND revoked_at IS NULL AND coalesce(expires_at <= at, false)
$$;

-- The token that the leases of a token belong to: itself, or its successor once it was replaced.
CREATE FUNCTION octo_current_token(token bigint) RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE COST 20 AS $$
    SELECT coalesce(
        CASE WHEN octo_token_is_replaced(holder.rotated_at, holder.revoked_at, holder.expires_at, statement_timestamp())
        THEN (
            SELECT later.id
            FROM octo_token AS later
            WHERE later.space_id = holder.space_id AND later.name = holder.name AND later.id > holder.id
              AND NOT octo_token_is_replaced(
                  later.rotated_at, later.revoked_at, later.expires_at, statement_timestamp())
            ORDER BY later.id
            LIMIT 1
        ) END,
        holder.id)
    FROM octo_token AS holder
    WHERE holder.id = token
$$;
