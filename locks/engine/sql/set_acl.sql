-- Set-acl: replaces the access list of a lock, or removes it; a single row.
--
-- $1 is one requests.SetAcl as JSON. The token that holds the lock may do it with locks:write, any other needs locks:force.
-- Who holds it is decided on the locked row, by the clock after the wait for it: a token that has lost the lock meanwhile
-- changes nothing. A lease that ends with its session counts until the statement's snapshot shows the session's end.
WITH auth AS MATERIALIZED (
    SELECT
        request.name, request.acl, request.request_id, request.channel, request.address,
        holder.token_id, holder.token_name, holder.space_id, holder.team_id, holder.requests_per_second,
        operator.refusal IS NULL AS is_operator,
        CASE WHEN operator.refusal IS NOT NULL THEN holder.refusal END AS refusal
    FROM json_to_record($1::json) AS request (
        digest text, request_id text, channel text, address inet, name text COLLATE "C", acl text[]
    )
    CROSS JOIN LATERAL octo_auth_v2(request.digest, 'locks:write', request.name) AS holder
    CROSS JOIN LATERAL octo_auth_v2(request.digest, 'locks:force', request.name) AS operator
),
locked AS MATERIALIZED (
    SELECT lock.*
    FROM auth
    JOIN octo_lock AS lock ON lock.space_id = auth.space_id AND lock.name = auth.name
    WHERE auth.refusal IS NULL
    FOR NO KEY UPDATE OF lock
),
clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now, locked_rows FROM (SELECT count(*) AS locked_rows FROM locked) AS all_locked
),
decision AS MATERIALIZED (
    SELECT
        locked.*, clock.now,
        auth.is_operator OR (
            coalesce(octo_effective_expiry(locked.expires_at, locked.bound_session_id) > clock.now, false)
            AND octo_token_owns_lease(auth.token_id, locked.token_id)) AS is_permitted
    FROM locked
    CROSS JOIN clock
    CROSS JOIN auth
),
updated AS (
    UPDATE octo_lock AS lock SET acl = auth.acl, updated_at = decision.now
    FROM decision
    CROSS JOIN auth
    WHERE lock.id = decision.id AND decision.is_permitted AND lock.acl IS DISTINCT FROM auth.acl
    RETURNING lock.id
),
recorded AS (
    INSERT INTO octo_event_entry
    SELECT
        decision.now, 'acl_changed', auth.team_id, auth.space_id, auth.name, decision.fencing_token, decision.owner,
        decision.holder_id, NULL, decision.token_id, 'token', auth.token_id, auth.token_name, auth.channel, auth.address,
        auth.request_id, NULL, NULL, NULL, jsonb_build_object('acl', jsonb_build_object('from', decision.acl, 'to', auth.acl))
    FROM updated
    JOIN decision USING (id)
    CROSS JOIN auth
)
SELECT
    CASE
        WHEN auth.refusal IS NOT NULL THEN auth.refusal
        WHEN decision.id IS NULL THEN 'unknown'
        -- Null if the lease has no token: a person has reserved the lock.
        WHEN decision.is_permitted IS NOT TRUE THEN 'not_permitted'
        ELSE 'changed'
    END AS verdict,
    auth.name,
    auth.acl,
    clock.now,
    auth.space_id,
    auth.requests_per_second
FROM auth
CROSS JOIN clock
LEFT JOIN decision ON true
