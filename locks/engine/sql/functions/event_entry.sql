-- What a statement writes into the history; the other columns have defaults.
CREATE VIEW octo_event_entry AS
SELECT
    at, kind, team_id, space_id, lock_name, fencing_token, owner, holder_id, metadata, token_id, actor_kind, actor_id,
    actor_name, channel, address, request_id, reason, held_ms, recorded_late_ms, detail
FROM octo_event;

-- The entry for a lease that was granted to a token, or to a person.
CREATE FUNCTION octo_grant_event_v2(
    at timestamptz, team_id bigint, space_id bigint, name text, fencing_token bigint, owner text, holder_id text,
    metadata text, token_id bigint, token_name text, channel text, address inet, request_id text,
    detail jsonb DEFAULT NULL, user_id bigint DEFAULT NULL
) RETURNS SETOF octo_event_entry LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT
        at, 'acquired', team_id, space_id, name COLLATE "C", fencing_token, owner, holder_id, metadata, token_id,
        CASE WHEN user_id IS NULL THEN 'token' ELSE 'user' END, coalesce(user_id, token_id), token_name,
        channel, address, request_id, NULL::text, NULL::bigint, NULL::bigint, detail
$$;

-- The entry for a lease that has ended: `kind` is expired, released or force_released. A lease expires without an actor.
CREATE FUNCTION octo_end_event(
    kind text, at timestamptz, team_id bigint, space_id bigint, name text, fencing_token bigint, owner text,
    holder_id text, metadata text, token_id bigint, acquired_at timestamptz, ended_at timestamptz, channel text,
    request_id text, actor_kind text DEFAULT NULL, actor_id bigint DEFAULT NULL, actor_name text DEFAULT NULL,
    address inet DEFAULT NULL, reason text DEFAULT NULL, detail jsonb DEFAULT NULL
) RETURNS SETOF octo_event_entry LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT
        at, kind, team_id, space_id, name COLLATE "C", fencing_token, owner, holder_id, metadata, token_id,
        CASE WHEN kind = 'expired' THEN 'system' ELSE actor_kind END,
        CASE WHEN kind = 'expired' THEN NULL ELSE actor_id END,
        CASE WHEN kind = 'expired' THEN 'expiry' ELSE actor_name END,
        channel, address, request_id, reason, octo_interval_ms(ended_at - acquired_at),
        CASE WHEN kind = 'expired' THEN octo_interval_ms(at - ended_at) END,
        detail
$$;
