-- The tokens that are valid now, with the limits of their spaces.
CREATE VIEW octo_live_token_v2 AS
SELECT
    token.digest,
    token.id AS token_id,
    token.public_id,
    token.name AS token_name,
    token.scopes,
    token.prefixes,
    token.actor_session_id,
    token.is_draining,
    space.id AS space_id,
    space.team_id,
    space.default_ttl_seconds,
    space.max_ttl_seconds,
    space.max_hold_seconds,
    space.max_metadata_length,
    space.octostore_compatibility,
    space.requests_per_second,
    space.namespaces,
    space.namespace_queue_until,
    -- The servers count once a second; an older count does not limit.
    coalesce(usage.live_locks >= space.max_live_locks
             AND usage.counted_at > clock_timestamp() - interval '3 seconds', false) AS space_is_full,
    coalesce(usage.events >= space.max_events, false) AS history_is_full,
    space.frozen_until
FROM octo_token AS token
JOIN octo_space AS space ON space.id = token.space_id
LEFT JOIN octo_space_usage AS usage ON usage.space_id = space.id
WHERE octo_token_is_valid(token.revoked_at, token.expires_at, space.archived_at, clock_timestamp());
