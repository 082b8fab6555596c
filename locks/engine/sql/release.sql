-- Release: one row for each request of the batch, in its order.
--
-- $1 is a JSON array of requests.Release. Locks first, then the clock, as in acquire.sql. A lease that has run out
-- is not ours to release any more: the sweep or the next acquire records how it ended. Where somebody may be in line,
-- or the lease seems to have died with its session, nothing is changed: end_and_hand_over.sql releases it and hands it on.
WITH caller AS MATERIALIZED (
    SELECT
        request.n, request.name, request.lease_id, request.request_id, request.channel, request.address,
        live.token_id, live.token_name, live.space_id, live.team_id, live.requests_per_second,
        CASE
            WHEN live.token_id IS NULL THEN 'unauthenticated'
            WHEN NOT 'locks:write' = ANY (live.scopes) THEN 'scope_missing'
            WHEN NOT octo_name_matches_prefixes(request.name, live.prefixes) THEN 'name_not_allowed'
        END AS refusal
    FROM json_to_recordset($1::json) AS request (
        n int, digest text, request_id text, channel text, address inet, name text COLLATE "C", lease_id uuid
    )
    LEFT JOIN LATERAL (
        SELECT * FROM octo_live_token WHERE octo_live_token.digest = decode(request.digest, 'hex') LIMIT 1
    ) AS live ON true
),
seen AS MATERIALIZED (
    SELECT
        caller.*, lock.id,
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
        seen.n, seen.name, seen.request_id, seen.channel, seen.address, seen.token_id, seen.token_name,
        seen.space_id, seen.team_id, lock.id, lock.lease_id IS NOT DISTINCT FROM seen.lease_id AS ours,
        lock.fencing_token, lock.owner, lock.holder_id, lock.metadata, lock.token_id AS holder_token_id,
        lock.acquired_at, lock.expires_at, lock.lock_delay_seconds, lock.last_waiter_id
    FROM seen
    JOIN octo_lock AS lock ON lock.id = seen.id
    WHERE seen.state = 'ours'
    ORDER BY seen.space_id, seen.name
    FOR NO KEY UPDATE OF lock
),
clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now, waited_for FROM (SELECT count(*) AS waited_for FROM locked) AS all_locked
),
-- Of several requests for one lease the first releases it, and the others come too late.
decided AS MATERIALIZED (
    SELECT
        locked.*, clock.now,
        CASE
            WHEN locked.expires_at > clock.now THEN
                CASE
                    WHEN NOT locked.ours THEN 'held_by_another'
                    WHEN locked.last_waiter_id IS NOT NULL THEN 'needs_handover'
                    WHEN row_number() OVER (PARTITION BY locked.id ORDER BY locked.n) = 1 THEN 'released'
                    ELSE 'not_held'
                END
            ELSE 'not_held'
        END AS verdict
    FROM locked
    CROSS JOIN clock
),
updated AS (
    UPDATE octo_lock AS lock SET
        lease_id = NULL, holder_id = NULL, token_id = NULL, session_id = NULL, bound_session_id = NULL, owner = NULL, metadata = NULL,
        ttl_seconds = NULL, acquired_at = NULL, renewed_at = NULL, expires_at = NULL, renewals = NULL,
        idempotency_digest = NULL, request_digest = NULL, next_sweep_at = NULL,
        available_at = decided.now + nullif(decided.lock_delay_seconds, 0) * interval '1 second',
        updated_at = decided.now
    FROM decided
    WHERE lock.id = decided.id AND decided.verdict = 'released'
),
recorded AS (
    INSERT INTO octo_event (
        at, kind, team_id, space_id, lock_name, fencing_token, owner, holder_id, metadata, token_id, actor_kind,
        actor_id, actor_name, channel, address, request_id, held_ms
    )
    SELECT
        now, 'released', team_id, space_id, name, fencing_token, owner, holder_id, metadata, holder_token_id, 'token',
        token_id, token_name, channel, address, request_id, octo_interval_ms(now - acquired_at)
    FROM decided
    WHERE verdict = 'released'
    ORDER BY n
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
    CASE WHEN decided.verdict = 'released' THEN decided.fencing_token END AS fencing_token,
    clock_timestamp() AS now,
    caller.space_id,
    caller.requests_per_second
FROM caller
LEFT JOIN seen USING (n)
LEFT JOIN decided USING (n)
ORDER BY caller.n
