-- The tokens of a space: those that ended (revoked, or rotated with the overlap over) or all others, among them expired
-- ones that were not rotated. With a public id, that token in any state.
SELECT
    token.id, token.name, token.public_id, token.scopes, token.prefixes, token.created_at, token.expires_at,
    token.rotated_at, token.revoked_at, token.last_used_at, host(token.last_used_address) AS last_used_address,
    token.last_used_agent,
    creator.username AS created_by,
    coalesce(held.leases, 0) AS live_leases,
    statement_timestamp() AS now
FROM octo_token AS token
LEFT JOIN octo_user AS creator ON creator.id = token.created_by_id
LEFT JOIN (
    -- Leases of a rotated token count for its successor.
    SELECT octo_current_token(holder.token_id) AS token_id, sum(holder.leases)::bigint AS leases
    FROM (
        SELECT token_id, count(*) AS leases
        FROM octo_lock_state_v2
        WHERE space_id = %(space_id)s AND lease_id IS NOT NULL AND effective_expires_at > statement_timestamp()
        GROUP BY token_id
    ) AS holder
    GROUP BY 1
) AS held ON held.token_id = token.id
WHERE token.space_id = %(space_id)s
  -- Tokens of actors are on the page of their run.
  AND token.actor_session_id IS NULL
  AND (%(public_id)s = '' OR token.public_id = %(public_id)s)
  AND (%(public_id)s <> '' OR %(ended)s = (
      token.revoked_at IS NOT NULL
      OR (token.rotated_at IS NOT NULL AND token.expires_at <= statement_timestamp())
  ))
  AND (%(search)s = '' OR token.name ILIKE %(pattern)s OR token.public_id = %(search)s)
ORDER BY
    CASE WHEN %(ended)s THEN coalesce(token.revoked_at, token.expires_at) END DESC,
    lower(token.name), token.id DESC
LIMIT %(limit)s OFFSET %(offset)s
