-- The tokens of a space, those in use or those that are over. Changes nothing.
--
-- In use: whatever works, works soon no more, or has expired with nobody taking its name since. Over: revoked, or rotated
-- with the overlap gone by.
SELECT
    token.id, token.name, token.public_id, token.scopes, token.prefixes, token.created_at, token.expires_at,
    token.rotated_at, token.revoked_at, token.last_used_at, host(token.last_used_address) AS last_used_address,
    token.last_used_agent,
    creator.username AS created_by,
    coalesce(held.number, 0) AS live_leases,
    statement_timestamp() AS now
FROM octo_token AS token
LEFT JOIN octo_user AS creator ON creator.id = token.created_by_id
LEFT JOIN (
    SELECT octo_current_token(taken.token_id) AS token_id, sum(taken.number)::bigint AS number
    FROM (
        SELECT token_id, count(*) AS number
        FROM octo_lock_state
        WHERE space_id = %(space_id)s AND lease_id IS NOT NULL AND effective_expires_at > statement_timestamp()
        GROUP BY token_id
    ) AS taken
    GROUP BY 1
) AS held ON held.token_id = token.id
WHERE token.space_id = %(space_id)s
  AND (%(public_id)s = '' OR token.public_id = %(public_id)s)
  AND (%(public_id)s <> '' OR %(over)s = (
      token.revoked_at IS NOT NULL
      OR (token.rotated_at IS NOT NULL AND token.expires_at <= statement_timestamp())
  ))
  AND (%(search)s = '' OR token.name ILIKE %(pattern)s OR token.public_id = %(search)s)
ORDER BY
    CASE WHEN %(over)s THEN coalesce(token.revoked_at, token.expires_at) END DESC,
    lower(token.name), token.id DESC
LIMIT %(rows)s OFFSET %(skipped)s
