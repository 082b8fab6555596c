-- Renew: one row for each request of the batch, in its order.
--
-- $1 is a JSON array of requests.Renew.
--
-- A lease id never comes back, so a snapshot that shows another one is a final answer. Where it shows ours, the row
-- is locked first and the clock read after (see acquire.sql): what counts is the lease as the last writer left it,
-- at the time when nobody else can change it. An expired lease is never revived. Nothing indexed changes unless the
-- new expiry is earlier than the sweep's next look, so a heartbeat is a heap-only update. Several requests for one
-- lease count in their order, so the last one's expiry stays. A lease that seems to have died with its session is
-- settled first (see acquire.sql).
WITH caller AS MATERIALIZED (
    SELECT
        request.n, request.name, request.lease_id, request.ttl_seconds, live.space_id, live.max_ttl_seconds,
        live.max_hold_seconds, live.requests_per_second,
        CASE
            WHEN live.token_id IS NULL THEN 'unauthenticated'
            WHEN NOT 'locks:write' = ANY (live.scopes) THEN 'scope_missing'
            WHEN NOT octo_name_matches_prefixes(request.name, live.prefixes) THEN 'name_not_allowed'
            WHEN request.ttl_seconds > live.max_ttl_seconds THEN 'ttl_too_long'
        END AS refusal
    FROM json_to_recordset($1::json) AS request (
        n int, digest text, name text COLLATE "C", lease_id uuid, ttl_seconds int
    )
    LEFT JOIN LATERAL (
        SELECT * FROM octo_live_token WHERE octo_live_token.digest = decode(request.digest, 'hex') LIMIT 1
    ) AS live ON true
),
seen AS MATERIALIZED (
    SELECT
        caller.*, lock.id, lock.session_until,
        CASE
            WHEN lock.lease_id = caller.lease_id THEN
                CASE WHEN lock.session_until <= clock_timestamp() THEN 'unsettled' ELSE 'ours' END
            WHEN least(lock.expires_at, lock.session_until) > clock_timestamp() THEN 'held_by_another'
            ELSE 'not_held'
        END AS state
    FROM caller
    LEFT JOIN LATERAL (
        SELECT
            id, lease_id, expires_at,
            CASE WHEN bound_session_id IS NOT NULL THEN octo_session_ends_at(bound_session_id) END AS session_until
        FROM octo_lock WHERE octo_lock.space_id = caller.space_id AND octo_lock.name = caller.name LIMIT 1
    ) AS lock ON true
    WHERE caller.refusal IS NULL
),
locked AS MATERIALIZED (
    SELECT
        seen.n, seen.max_hold_seconds, seen.session_until, lock.id, lock.fencing_token, lock.acquired_at, lock.renewed_at,
        lock.expires_at, lock.lease_id IS NOT DISTINCT FROM seen.lease_id AS ours,
        coalesce(seen.ttl_seconds, least(lock.ttl_seconds, seen.max_ttl_seconds)) AS ttl_seconds
    FROM seen
    JOIN octo_lock AS lock ON lock.id = seen.id
    WHERE seen.state = 'ours'
    ORDER BY seen.space_id, seen.name
    FOR NO KEY UPDATE OF lock
),
clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now, waited_for FROM (SELECT count(*) AS waited_for FROM locked) AS all_locked
),
decided AS MATERIALIZED (
    SELECT
        locked.*,
        CASE
            WHEN NOT locked.ours THEN
                CASE WHEN locked.expires_at > clock.now THEN 'held_by_another' ELSE 'not_held' END
            WHEN locked.expires_at <= clock.now THEN 'not_held'
            WHEN locked.session_until <= clock.now THEN NULL
            WHEN locked.acquired_at + locked.max_hold_seconds * interval '1 second' <= clock.now THEN 'max_hold_reached'
            ELSE 'renewed'
        END AS verdict,
        -- A clock that was set back takes nothing from a lease.
        greatest(clock.now, locked.renewed_at) AS now,
        least(
            greatest(clock.now, locked.renewed_at) + locked.ttl_seconds * interval '1 second',
            locked.acquired_at + locked.max_hold_seconds * interval '1 second'
        ) AS until
    FROM locked
    CROSS JOIN clock
),
updated AS (
    UPDATE octo_lock AS lock SET
        expires_at = last.until,
        renewed_at = last.now,
        ttl_seconds = last.ttl_seconds,
        renewals = lock.renewals + 1,
        next_sweep_at = least(lock.next_sweep_at, last.until)
    FROM (SELECT DISTINCT ON (id) * FROM decided WHERE verdict = 'renewed' ORDER BY id, n DESC) AS last
    WHERE lock.id = last.id
)
SELECT
    caller.n,
    coalesce(
        caller.refusal, decided.verdict,
        CASE seen.state WHEN 'ours' THEN NULL WHEN 'unsettled' THEN 'needs_handover' ELSE seen.state END,
        'retry'
    ) AS verdict,
    caller.name,
    caller.lease_id,
    CASE WHEN decided.verdict = 'renewed' THEN decided.fencing_token END AS fencing_token,
    CASE WHEN decided.verdict = 'renewed' THEN decided.until END AS expires_at,
    clock_timestamp() AS now,
    caller.space_id,
    caller.max_ttl_seconds,
    caller.requests_per_second
FROM caller
LEFT JOIN seen USING (n)
LEFT JOIN decided USING (n)
ORDER BY caller.n
