-- Renew: one row for each request of the batch, in its order.
--
-- $1 is a JSON array of requests.Renew.
--
-- A lease id never comes back, so a snapshot that shows another one is a final answer. Where it shows ours, the row
-- is locked first and the clock read after (see acquire.sql): what counts is the lease as the last writer left it,
-- at the time when nobody else can change it. An expired lease is never revived. Nothing indexed changes unless the
-- new expiry is earlier than the sweep's next look, so a heartbeat is a heap-only update.
WITH caller AS MATERIALIZED (
    SELECT
        request.n, request.name, request.lease_id, request.ttl_seconds, live.space_id, live.max_ttl_seconds,
        live.max_hold_seconds, live.requests_per_second,
        CASE
            WHEN live.token_id IS NULL THEN 'unauthenticated'
            WHEN NOT 'locks:write' = ANY (live.scopes) THEN 'scope_missing'
            WHEN NOT octo_name_is_within(request.name, live.prefixes) THEN 'name_not_allowed'
            WHEN request.ttl_seconds > live.max_ttl_seconds THEN 'ttl_too_long'
        END AS refusal
    FROM json_to_recordset($1::json) AS request (n int, digest text, name text, lease_id uuid, ttl_seconds int)
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
        candidate.n, candidate.max_hold_seconds, lock.id, lock.acquired_at, lock.expires_at,
        lock.lease_id IS NOT DISTINCT FROM candidate.lease_id AS ours,
        coalesce(candidate.ttl_seconds, least(lock.ttl_seconds, candidate.max_ttl_seconds)) AS ttl_seconds
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
        least(
            clock.now + locked.ttl_seconds * interval '1 second',
            locked.acquired_at + locked.max_hold_seconds * interval '1 second'
        ) AS until,
        CASE
            WHEN NOT locked.ours THEN
                CASE WHEN locked.expires_at > clock.now THEN 'held_by_another' ELSE 'no_lease' END
            WHEN locked.expires_at <= clock.now THEN 'no_lease'
            WHEN locked.acquired_at + locked.max_hold_seconds * interval '1 second' <= clock.now THEN 'held_too_long'
            ELSE 'renewed'
        END AS verdict
    FROM locked
    CROSS JOIN clock
),
updated AS (
    UPDATE octo_lock AS lock SET
        expires_at = decided.until,
        renewed_at = decided.now,
        ttl_seconds = decided.ttl_seconds,
        renewals = lock.renewals + 1,
        sweep_at = least(lock.sweep_at, decided.until)
    FROM decided
    WHERE lock.id = decided.id AND decided.verdict = 'renewed'
    RETURNING decided.n, lock.fencing_token, lock.expires_at
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
    updated.fencing_token,
    updated.expires_at,
    clock_timestamp() AS now,
    caller.space_id,
    caller.max_ttl_seconds,
    caller.requests_per_second
FROM caller
LEFT JOIN seen USING (n)
LEFT JOIN decided USING (n)
LEFT JOIN updated USING (n)
ORDER BY caller.n
