-- The active spaces of a team, each with its number of held locks and valid tokens, and with the names and events that were
-- counted last.
SELECT
    space.id,
    (SELECT count(*) FROM octo_lock_state_v2
     WHERE octo_lock_state_v2.space_id = space.id AND lease_id IS NOT NULL AND effective_expires_at > statement_timestamp()) AS held,
    coalesce(usage.names, 0) AS names,
    coalesce(usage.events, 0) AS events,
    (SELECT count(*) FROM octo_live_token_v2 WHERE octo_live_token_v2.space_id = space.id) AS tokens
FROM octo_space AS space
LEFT JOIN octo_space_usage AS usage ON usage.space_id = space.id
WHERE space.team_id = %(team_id)s AND space.archived_at IS NULL
