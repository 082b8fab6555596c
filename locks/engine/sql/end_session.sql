-- End a session. One row. $1 is one requests.OfSession as JSON.
--
-- This one update frees all its locks, because a lease is over with the session it is tied to. How each of them ended is
-- recorded by settle.sql right after, all in one statement, or by whoever asks for one of them first.
WITH caller AS MATERIALIZED (
    SELECT
        request.*, live.token_id, live.token_name, live.space_id, live.team_id, live.requests_per_second,
        CASE
            WHEN live.token_id IS NULL THEN 'unauthenticated'
            WHEN NOT 'locks:write' = ANY (live.scopes) THEN 'scope_missing'
        END AS refusal
    FROM json_to_record($1::json) AS request (
        digest text, request_id text, channel text, address inet, session_id uuid
    )
    LEFT JOIN LATERAL (
        SELECT * FROM octo_live_token WHERE octo_live_token.digest = decode(request.digest, 'hex') LIMIT 1
    ) AS live ON true
),
locked AS MATERIALIZED (
    SELECT session.*
    FROM octo_session AS session
    WHERE session.id = (SELECT session_id FROM caller WHERE refusal IS NULL)
      AND session.token_id = (SELECT token_id FROM caller)
    FOR NO KEY UPDATE
),
clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now, waited_for FROM (SELECT count(*) AS waited_for FROM locked) AS all_locked
),
ended AS (
    UPDATE octo_session AS session SET ended_at = clock.now, sweep_at = least(session.sweep_at, clock.now)
    FROM locked CROSS JOIN clock
    WHERE session.id = locked.id AND locked.ended_at IS NULL AND locked.expires_at > clock.now
    RETURNING session.id, session.owner, session.metadata, session.created_at
),
recorded AS (
    INSERT INTO octo_event (
        at, kind, team_id, space_id, owner, metadata, token_id, actor_kind, actor_id, actor_name, channel, address,
        request_id, held_ms, detail
    )
    SELECT
        clock.now, 'session_ended', caller.team_id, caller.space_id, ended.owner, ended.metadata, caller.token_id,
        'token', caller.token_id, caller.token_name, caller.channel, caller.address, caller.request_id,
        octo_ms(clock.now - ended.created_at), jsonb_build_object('session_id', ended.id)
    FROM ended CROSS JOIN caller CROSS JOIN clock
)
SELECT
    CASE
        WHEN caller.refusal IS NOT NULL THEN caller.refusal
        WHEN ended.id IS NOT NULL THEN 'ended'
        WHEN locked.id IS NOT NULL THEN 'session_over'
        ELSE 'no_session'
    END AS verdict,
    caller.session_id,
    clock_timestamp() AS now,
    caller.space_id,
    caller.requests_per_second
FROM caller
LEFT JOIN locked ON true
LEFT JOIN ended ON true
