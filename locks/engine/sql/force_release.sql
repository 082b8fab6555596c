-- Force-release: one row for each request of the batch, in its order.
--
-- $1 is a JSON array of requests.ForceRelease. Whoever asks is a token (its digest is given and checked here) or
-- somebody whom the caller has authorised for the space. The guard, when given, is the fencing token they were
-- looking at: if the lock has changed hands since, nothing happens. Locks first, then the clock, as in acquire.sql.
-- Where somebody may be in line, or the lease is tied to a session, it is left to end_and_hand_over.sql.
WITH caller AS MATERIALIZED (
    SELECT
        request.n, request.name, request.guard, request.reason, request.lock_delay_seconds, request.request_id,
        request.channel, request.address, request.detail,
        coalesce(live.space_id, space.id) AS space_id,
        coalesce(live.team_id, space.team_id) AS team_id,
        coalesce(live.token_id, request.actor_id) AS actor_id,
        coalesce(live.token_name, request.actor_name) AS actor_name,
        CASE WHEN request.digest IS NULL THEN request.actor_kind ELSE 'token' END AS actor_kind,
        live.requests_per_second,
        CASE
            WHEN request.digest IS NULL THEN CASE WHEN space.id IS NULL THEN 'not_held' END
            WHEN live.token_id IS NULL THEN 'unauthenticated'
            WHEN NOT 'locks:force' = ANY (live.scopes) THEN 'scope_missing'
            WHEN NOT octo_name_matches_prefixes(request.name, live.prefixes) THEN 'name_not_allowed'
        END AS refusal
    FROM json_to_recordset($1::json) AS request (
        n int, digest text, space_id bigint, actor_kind text, actor_id bigint, actor_name text, request_id text,
        channel text, address inet, name text COLLATE "C", guard bigint, reason text, lock_delay_seconds int, detail jsonb
    )
    LEFT JOIN LATERAL (
        SELECT * FROM octo_live_token WHERE octo_live_token.digest = decode(request.digest, 'hex') LIMIT 1
    ) AS live ON true
    LEFT JOIN octo_space AS space ON request.digest IS NULL AND space.id = request.space_id
),
seen AS MATERIALIZED (
    SELECT caller.*, lock.id
    FROM caller
    CROSS JOIN LATERAL (
        SELECT * FROM octo_lock WHERE octo_lock.space_id = caller.space_id AND octo_lock.name = caller.name LIMIT 1
    ) AS lock
    WHERE caller.refusal IS NULL AND lock.lease_id IS NOT NULL
),
locked AS MATERIALIZED (
    SELECT
        seen.n, seen.name, seen.guard, seen.reason, seen.request_id, seen.channel, seen.address, seen.detail,
        seen.space_id, seen.team_id, seen.actor_id, seen.actor_name, seen.actor_kind, lock.id, lock.lease_id,
        lock.fencing_token, lock.owner, lock.holder_id, lock.metadata, lock.token_id AS holder_token_id, lock.acquired_at,
        lock.expires_at, lock.last_waiter_id, lock.bound_session_id,
        coalesce(seen.lock_delay_seconds, lock.lock_delay_seconds) AS delay_seconds
    FROM seen
    JOIN octo_lock AS lock ON lock.id = seen.id
    ORDER BY seen.space_id, seen.name
    FOR NO KEY UPDATE OF lock
),
clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now, waited_for FROM (SELECT count(*) AS waited_for FROM locked) AS all_locked
),
judged AS MATERIALIZED (
    SELECT
        locked.*, clock.now,
        CASE
            WHEN locked.lease_id IS NULL OR locked.expires_at <= clock.now THEN 'not_held'
            WHEN locked.last_waiter_id IS NOT NULL OR locked.bound_session_id IS NOT NULL THEN 'needs_handover'
            WHEN locked.guard <> locked.fencing_token THEN 'fencing_mismatch'
            ELSE 'released'
        END AS verdict
    FROM locked
    CROSS JOIN clock
),
-- Of several requests for one lock the first that may releases it, and the others come too late.
decided AS MATERIALIZED (
    SELECT
        id, name, n, now, reason, request_id, channel, address, detail, space_id, team_id, actor_id, actor_name,
        actor_kind, fencing_token, owner, holder_id, metadata, holder_token_id, acquired_at, expires_at,
        delay_seconds, now + nullif(delay_seconds, 0) * interval '1 second' AS available_at,
        CASE
            WHEN n > min(n) FILTER (WHERE verdict = 'released') OVER (PARTITION BY id) THEN 'not_held'
            ELSE verdict
        END AS verdict
    FROM judged
),
updated AS (
    UPDATE octo_lock AS lock SET
        lease_id = NULL, holder_id = NULL, token_id = NULL, session_id = NULL, bound_session_id = NULL, owner = NULL, metadata = NULL,
        ttl_seconds = NULL, acquired_at = NULL, renewed_at = NULL, expires_at = NULL, renewals = NULL,
        idempotency_digest = NULL, request_digest = NULL, next_sweep_at = NULL,
        lock_delay_seconds = decided.delay_seconds,
        available_at = decided.available_at, updated_at = decided.now
    FROM decided
    WHERE lock.id = decided.id AND decided.verdict = 'released'
),
recorded AS (
    INSERT INTO octo_event (
        at, kind, team_id, space_id, lock_name, fencing_token, owner, holder_id, metadata, token_id, actor_kind,
        actor_id, actor_name, channel, address, request_id, reason, held_ms, detail
    )
    SELECT
        now, 'force_released', team_id, space_id, name, fencing_token, owner, holder_id, metadata, holder_token_id,
        actor_kind, actor_id, actor_name, channel, address, request_id, reason, octo_interval_ms(now - acquired_at), detail
    FROM decided
    WHERE verdict = 'released'
    ORDER BY n
    RETURNING id, space_id, lock_name
)
SELECT
    caller.n,
    CASE
        WHEN caller.refusal IS NOT NULL THEN caller.refusal
        WHEN decided.n IS NOT NULL THEN decided.verdict
        WHEN seen.n IS NOT NULL THEN 'retry'
        ELSE 'not_held'
    END AS verdict,
    caller.name,
    decided.fencing_token,
    decided.owner,
    decided.metadata,
    decided.acquired_at,
    decided.expires_at,
    decided.available_at,
    recorded.id AS event_id,
    clock_timestamp() AS now,
    caller.space_id,
    caller.requests_per_second
FROM caller
LEFT JOIN seen USING (n)
LEFT JOIN decided USING (n)
LEFT JOIN recorded ON decided.verdict = 'released'
    AND recorded.space_id = caller.space_id AND recorded.lock_name = caller.name
ORDER BY caller.n
