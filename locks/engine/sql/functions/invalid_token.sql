-- Tokens that were revoked or have expired and so cannot renew the leases they took. A rotated token whose successor is
-- valid is not one of them: the successor renews its leases.
CREATE VIEW octo_invalid_token AS
SELECT
    token.id, token.space_id, token.name,
    coalesce(token.revoked_at, token.expires_at) AS ended_at,
    token.revoked_at IS NOT NULL AS is_revoked
FROM octo_token AS token
JOIN octo_token AS current ON current.id = octo_current_token(token.id)
WHERE (token.revoked_at IS NOT NULL OR token.expires_at <= statement_timestamp())
  AND (current.revoked_at IS NOT NULL OR current.expires_at <= statement_timestamp());
