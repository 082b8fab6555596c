-- The spaces of a team with what is held in each. Changes nothing.
SELECT
    space.id,
    (SELECT count(*) FROM octo_lock_state
     WHERE octo_lock_state.space_id = space.id AND lease_id IS NOT NULL AND effective_expires_at > statement_timestamp()) AS held,
    (SELECT count(*) FROM octo_token
     WHERE octo_token.space_id = space.id AND revoked_at IS NULL
       AND (octo_token.expires_at IS NULL OR octo_token.expires_at > statement_timestamp())) AS tokens
FROM octo_space AS space
WHERE space.team_id = %(team_id)s AND space.archived_at IS NULL
