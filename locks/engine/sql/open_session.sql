-- Open a session. One row. $1 is one requests.OpenSession as JSON.
--
-- Whoever knows its id may act as its holder, so the history knows it by its holder's pseudonym, as it does its locks.
WITH caller AS MATERIALIZED (
    SELECT
        request.*, live.token_id, live.public_id, live.token_name, live.space_id, live.team_id, live.max_metadata_length,
        live.requests_per_second, clock.now,
        CASE
            WHEN live.token_id IS NULL THEN 'unauthenticated'
            WHEN NOT 'locks:write' = ANY (live.scopes) THEN 'scope_missing'
            WHEN char_length(request.metadata) > live.max_metadata_length THEN 'metadata_too_long'
        END AS refusal
    FROM json_to_record($1::json) AS request (
        digest text, request_id text, channel text, address inet, ttl_seconds int, owner text, metadata text
    )
    CROSS JOIN (SELECT clock_timestamp() AS now) AS clock
    LEFT JOIN LATERAL (
        SELECT * FROM octo_live_token WHERE octo_live_token.digest = decode(request.digest, 'hex') LIMIT 1
    ) AS live ON true
),
opened AS (
    INSERT INTO octo_session (
        id, space_id, token_id, owner, metadata, ttl_seconds, created_at, last_keepalive_at, expires_at, next_sweep_at
    )
    SELECT
        gen_random_uuid(), space_id, token_id, coalesce(owner, token_name), metadata, ttl_seconds, now, now,
        now + ttl_seconds * interval '1 second', now + ttl_seconds * interval '1 second'
    FROM caller
    WHERE refusal IS NULL
    RETURNING id, owner, metadata, ttl_seconds, created_at, last_keepalive_at, expires_at
),
recorded AS (
    INSERT INTO octo_event (
        at, kind, team_id, space_id, owner, holder_id, metadata, token_id, actor_kind, actor_id, actor_name, channel,
        address, request_id, detail
    )
    SELECT
        caller.now, 'session_opened', caller.team_id, caller.space_id, opened.owner,
        octo_holder_id(caller.public_id, opened.id), opened.metadata,
        caller.token_id, 'token', caller.token_id, caller.token_name, caller.channel, caller.address, caller.request_id,
        jsonb_build_object('ttl_seconds', opened.ttl_seconds)
    FROM opened CROSS JOIN caller
)
SELECT
    coalesce(caller.refusal, 'opened') AS verdict,
    opened.id AS session_id, opened.owner, opened.metadata, opened.ttl_seconds, opened.created_at, opened.last_keepalive_at,
    opened.expires_at, NULL::timestamptz AS ended_at, 0 AS lock_count, true AS active,
    caller.now, caller.space_id, caller.max_metadata_length, caller.requests_per_second
FROM caller
LEFT JOIN opened ON true
