-- Keepalive of sessions: one row for each request of the batch, in its order.
--
-- $1 is a JSON array of requests.SessionRef. The session is locked first and the clock read after: a statement that ends
-- the session under its own lock (end_and_hand_over.sql) is waited for, and then the session is over. A session is never
-- revived and never shortened. No indexed column changes, so this is one heap-only update, however many locks it has.
WITH auth AS MATERIALIZED (
    SELECT
        request.index, request.session_id, auth.token_id, auth.space_id, auth.requests_per_second, auth.refusal
    FROM json_to_recordset($1::json) AS request (index int, digest text, session_id uuid)
    CROSS JOIN LATERAL octo_auth_v2(request.digest, 'locks:write', NULL) AS auth
),
locked AS MATERIALIZED (
    SELECT session.id, session.token_id, session.ttl_seconds, session.ended_at, session.expires_at
    FROM octo_session AS session
    WHERE session.id = ANY (ARRAY(SELECT session_id FROM auth WHERE refusal IS NULL))
    ORDER BY session.id
    FOR NO KEY UPDATE
),
clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now, locked_rows FROM (SELECT count(*) AS locked_rows FROM locked) AS all_locked
),
decision AS MATERIALIZED (
    SELECT
        auth.index, locked.id, clock.now,
        greatest(locked.expires_at, clock.now + locked.ttl_seconds * interval '1 second') AS new_expires_at,
        CASE WHEN locked.ended_at IS NULL AND locked.expires_at > clock.now THEN 'kept_alive'
             ELSE 'session_over' END AS verdict
    FROM auth
    CROSS JOIN clock
    JOIN locked ON locked.id = auth.session_id AND octo_token_owns_lease(auth.token_id, locked.token_id)
),
updated AS (
    UPDATE octo_session AS session SET last_keepalive_at = first.now, expires_at = first.new_expires_at
    FROM (SELECT DISTINCT ON (id) * FROM decision WHERE verdict = 'kept_alive') AS first
    WHERE session.id = first.id
)
SELECT
    auth.index,
    coalesce(auth.refusal, decision.verdict, 'no_session') AS verdict,
    auth.session_id,
    CASE WHEN decision.verdict = 'kept_alive' THEN decision.new_expires_at END AS expires_at,
    clock_timestamp() AS now,
    auth.space_id,
    auth.requests_per_second
FROM auth
LEFT JOIN decision USING (index)
ORDER BY auth.index
