-- Opens a session. One row. $1 is one requests.OpenSession as JSON.
--
-- The session id is a secret like a lease id, so the history names the session by its holder id, as it does its locks.
WITH auth AS MATERIALIZED (
    SELECT
        request.*, clock.now, auth.token_id, auth.public_id, auth.token_name, auth.space_id, auth.team_id,
        auth.max_metadata_length, auth.requests_per_second,
        coalesce(auth.refusal, CASE
            WHEN char_length(request.metadata) > auth.max_metadata_length THEN 'metadata_too_long'
            WHEN auth.history_is_full THEN 'history_full'
            -- Counted no further than the limit.
            WHEN 10000 <= (
                SELECT count(*)
                FROM (
                    SELECT FROM octo_session AS live
                    WHERE live.space_id = auth.space_id AND live.next_sweep_at IS NOT NULL AND live.ended_at IS NULL
                    LIMIT 10000
                ) AS live
            ) THEN 'space_full'
        END) AS refusal
    FROM json_to_record($1::json) AS request (
        digest text, request_id text, channel text, address inet, ttl_seconds int, owner text, metadata text
    )
    CROSS JOIN (SELECT clock_timestamp() AS now) AS clock
    CROSS JOIN LATERAL octo_auth_v2(request.digest, 'locks:write', NULL) AS auth
),
opened AS (
    INSERT INTO octo_session (
        id, space_id, token_id, owner, metadata, ttl_seconds, created_at, last_keepalive_at, expires_at, next_sweep_at
    )
    SELECT
        gen_random_uuid(), space_id, token_id, coalesce(owner, token_name), metadata, ttl_seconds, now, now,
        now + ttl_seconds * interval '1 second', now + ttl_seconds * interval '1 second'
    FROM auth
    WHERE refusal IS NULL
    RETURNING id, owner, metadata, ttl_seconds, created_at, last_keepalive_at, expires_at
),
recorded AS (
    INSERT INTO octo_event_entry (
        at, kind, team_id, space_id, owner, holder_id, metadata, token_id, actor_kind, actor_id, actor_name, channel,
        address, request_id, detail
    )
    SELECT
        auth.now, 'session_opened', auth.team_id, auth.space_id, opened.owner,
        octo_holder_id(auth.public_id, opened.id), opened.metadata,
        auth.token_id, 'token', auth.token_id, auth.token_name, auth.channel, auth.address, auth.request_id,
        jsonb_build_object('ttl_seconds', opened.ttl_seconds)
    FROM opened CROSS JOIN auth
)
SELECT
    coalesce(auth.refusal, 'opened') AS verdict,
    opened.id AS session_id, octo_holder_id(auth.public_id, NULL)::uuid AS user_id, opened.owner, opened.metadata, opened.ttl_seconds, opened.created_at,
    opened.last_keepalive_at, opened.expires_at, NULL::timestamptz AS ended_at, 0 AS lock_count, true AS active,
    auth.now, auth.space_id, auth.max_metadata_length, auth.requests_per_second
FROM auth
LEFT JOIN opened ON true
