-- Keep sessions alive: one row for each request of the batch, in its order.
--
-- $1 is a JSON array of requests.OfSession. The session is locked first and the clock read after: whoever finds out, under
-- a lock of its own, that the session is over (end_and_hand_over.sql) is waited for, and then it is over. Never revived, never
-- shortened; nothing indexed changes, so it is one heap-only update however many locks the session has.
WITH caller AS MATERIALIZED (
    SELECT
        request.n, request.session_id, live.token_id, live.space_id, live.requests_per_second,
        CASE
            WHEN live.token_id IS NULL THEN 'unauthenticated'
            WHEN NOT 'locks:write' = ANY (live.scopes) THEN 'scope_missing'
        END AS refusal
    FROM json_to_recordset($1::json) AS request (n int, digest text, session_id uuid)
    LEFT JOIN LATERAL (
        SELECT * FROM octo_live_token WHERE octo_live_token.digest = decode(request.digest, 'hex') LIMIT 1
    ) AS live ON true
),
locked AS MATERIALIZED (
    SELECT session.id, session.token_id, session.ttl_seconds, session.ended_at, session.expires_at
    FROM octo_session AS session
    WHERE session.id = ANY (ARRAY(SELECT session_id FROM caller WHERE refusal IS NULL))
    ORDER BY session.id
    FOR NO KEY UPDATE
),
clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now, waited_for FROM (SELECT count(*) AS waited_for FROM locked) AS all_locked
),
decided AS MATERIALIZED (
    SELECT
        caller.n, locked.id, clock.now,
        greatest(locked.expires_at, clock.now + locked.ttl_seconds * interval '1 second') AS until,
        CASE WHEN locked.ended_at IS NULL AND locked.expires_at > clock.now THEN 'kept_alive'
             ELSE 'session_over' END AS verdict
    FROM caller
    CROSS JOIN clock
    JOIN locked ON locked.id = caller.session_id AND locked.token_id = caller.token_id
),
updated AS (
    UPDATE octo_session AS session SET last_keepalive_at = one.now, expires_at = one.until
    FROM (SELECT DISTINCT ON (id) * FROM decided WHERE verdict = 'kept_alive') AS one
    WHERE session.id = one.id
)
SELECT
    caller.n,
    coalesce(caller.refusal, decided.verdict, 'no_session') AS verdict,
    caller.session_id,
    CASE WHEN decided.verdict = 'kept_alive' THEN decided.until END AS expires_at,
    clock_timestamp() AS now,
    caller.space_id,
    caller.requests_per_second
FROM caller
LEFT JOIN decided USING (n)
ORDER BY caller.n
