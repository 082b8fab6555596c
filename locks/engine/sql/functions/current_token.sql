-- The token that the leases of a token belong to: itself, or its successor once it was rotated and the overlap is over.
CREATE FUNCTION octo_current_token(token bigint) RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE COST 20 AS $$
    SELECT coalesce(
        CASE WHEN holder.rotated_at IS NOT NULL AND holder.revoked_at IS NULL
                  AND holder.expires_at <= statement_timestamp() THEN (
            SELECT later.id
            FROM octo_token AS later
            WHERE later.space_id = holder.space_id AND later.name = holder.name AND later.id > holder.id
              AND NOT (later.rotated_at IS NOT NULL AND later.revoked_at IS NULL
                       AND later.expires_at <= statement_timestamp())
            ORDER BY later.id
            LIMIT 1
        ) END,
        holder.id)
    FROM octo_token AS holder
    WHERE holder.id = token
$$;
