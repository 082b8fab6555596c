-- Release: one row for each request of the batch, in its order.
--
-- $1 is a JSON array of requests.Release. Locks first, then the clock, as in acquire.sql. A lease that has run out
-- is not ours to release any more: the sweep or the next acquire records how it ended.
WITH caller AS MATERIALIZED (
    SELECT
        request.n, request.name, request.lease_id, request.request_id, request.channel, request.address,
        live.token_id, live.token_name, live.space_id, live.team_id, live.requests_per_second,
        CASE
            WHEN live.token_id IS NULL THEN 'unauthenticated'
            WHEN NOT 'locks:write' = ANY (live.scopes) THEN 'scope_missing'
            WHEN NOT octo_name_is_within(request.name, live.prefixes) THEN 'name_not_allowed'
        END AS refusal
    FROM json_to_recordset($1::json) AS request (
        n int, digest text, request_id text, channel text, address inet, name text, lease_id uuid
    )
    LEFT JOIN LATERAL (
        SELECT * FROM octo_live_token WHERE octo_live_token.digest = decode(request.digest, 'hex') LIMIT 1
    ) AS live ON true
),
seen AS MATERIALIZED (
    SELECT
        caller.*, lock.id AS lock_id,
        CASE
            WHEN lock.lease_id = caller.lease_id THEN 'ours'
            WHEN lock.expires_at > clock_timestamp() THEN 'held_by_another'
            ELSE 'no_lease'
        END AS state
    FROM caller
    LEFT JOIN LATERAL (
        SELECT * FROM octo_lock WHERE octo_lock.space_id = caller.space_id AND octo_lock.name = caller.name LIMIT 1
    ) AS lock ON true
    WHERE caller.refusal IS NULL
),
candidate AS MATERIALIZED (
    SELECT DISTINCT ON (space_id, name) * FROM seen WHERE state = 'ours' ORDER BY space_id, name, n
),
locked AS MATERIALIZED (
    SELECT
        candidate.n, lock.id, lock.lease_id IS NOT DISTINCT FROM candidate.lease_id AS ours, lock.fencing_token,
        lock.owner, lock.holder_id, lock.metadata, lock.token_id AS holder_token_id, lock.acquired_at,
        lock.expires_at, lock.lock_delay_seconds
    FROM candidate
    JOIN octo_lock AS lock ON lock.id = candidate.lock_id
    ORDER BY candidate.space_id, candidate.name
    FOR NO KEY UPDATE OF lock
),
clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now, waited_for FROM (SELECT count(*) AS waited_for FROM locked) AS all_locked
),
decided AS MATERIALIZED (
    SELECT
        locked.*, clock.now,
        CASE
            WHEN locked.ours AND locked.expires_at > clock.now THEN 'released'
            WHEN locked.expires_at > clock.now THEN 'held_by_another'
            ELSE 'no_lease'
        END AS verdict
    FROM locked
    CROSS JOIN clock
),
updated AS (
    UPDATE octo_lock AS lock SET
        lease_id = NULL, holder_id = NULL, token_id = NULL, session_id = NULL, owner = NULL, metadata = NULL,
        ttl_seconds = NULL, acquired_at = NULL, renewed_at = NULL, expires_at = NULL, renewals = NULL,
        idempotency_digest = NULL, request_digest = NULL, sweep_at = NULL,
        available_at = CASE WHEN decided.lock_delay_seconds > 0
                            THEN decided.now + decided.lock_delay_seconds * interval '1 second' END,
        changed_at = decided.now
    FROM decided
    WHERE lock.id = decided.id AND decided.verdict = 'released'
    RETURNING decided.n
),
recorded AS (
    INSERT INTO octo_event (
        at, kind, team_id, space_id, lock_name, fencing_token, owner, holder_id, metadata, token_id, actor_kind,
        actor_id, actor_name, channel, address, request_id, held_ms
    )
    SELECT
        decided.now, 'released', caller.team_id, caller.space_id, caller.name, decided.fencing_token, decided.owner,
        decided.holder_id, decided.metadata, decided.holder_token_id, 'token', caller.token_id, caller.token_name,
        caller.channel, caller.address, caller.request_id, octo_ms(decided.now - decided.acquired_at)
    FROM updated
    JOIN decided USING (n)
    JOIN caller USING (n)
    ORDER BY n
)
SELECT
    caller.n,
    CASE
        WHEN caller.refusal IS NOT NULL THEN caller.refusal
        WHEN decided.n IS NOT NULL THEN decided.verdict
        WHEN seen.state = 'ours' THEN 'again'
        ELSE seen.state
    END AS verdict,
    caller.name,
    caller.lease_id,
    decided.fencing_token,
    clock_timestamp() AS now,
    caller.space_id,
    caller.requests_per_second
FROM caller
LEFT JOIN seen USING (n)
LEFT JOIN decided USING (n)
ORDER BY caller.n
