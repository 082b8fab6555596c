-- Force-release: one row for each request of the batch, in its order.
--
-- $1 is a JSON array of requests.ForceRelease. Whoever asks is a token (its digest is given and checked here) or a
-- person, whom the caller has authorised for the space. The guard, when given, is the fencing token they were
-- looking at: if the lock has changed hands since, nothing happens. Locks first, then the clock, as in acquire.sql.
WITH caller AS MATERIALIZED (
    SELECT
        request.n, request.name, request.guard, request.reason, request.lock_delay_seconds, request.request_id,
        request.channel, request.address,
        coalesce(live.space_id, space.id) AS space_id,
        coalesce(live.team_id, space.team_id) AS team_id,
        coalesce(live.token_id, request.user_id) AS actor_id,
        coalesce(live.token_name, request.user_name) AS actor_name,
        CASE WHEN request.digest IS NULL THEN 'user' ELSE 'token' END AS actor_kind,
        live.requests_per_second,
        CASE
            WHEN request.digest IS NULL THEN CASE WHEN space.id IS NULL THEN 'no_lease' END
            WHEN live.token_id IS NULL THEN 'unauthenticated'
            WHEN NOT 'locks:force' = ANY (live.scopes) THEN 'scope_missing'
            WHEN NOT octo_name_is_within(request.name, live.prefixes) THEN 'name_not_allowed'
        END AS refusal
    FROM json_to_recordset($1::json) AS request (
        n int, digest text, space_id bigint, user_id bigint, user_name text, request_id text, channel text,
        address inet, name text, guard bigint, reason text, lock_delay_seconds int
    )
    LEFT JOIN LATERAL (
        SELECT * FROM octo_live_token WHERE octo_live_token.digest = decode(request.digest, 'hex') LIMIT 1
    ) AS live ON true
    LEFT JOIN octo_space AS space ON request.digest IS NULL AND space.id = request.space_id
),
candidate AS MATERIALIZED (
    SELECT DISTINCT ON (caller.space_id, caller.name) caller.*, lock.id AS lock_id
    FROM caller
    JOIN octo_lock AS lock USING (space_id, name)
    WHERE caller.refusal IS NULL AND lock.lease_id IS NOT NULL
    ORDER BY caller.space_id, caller.name, caller.n
),
locked AS MATERIALIZED (
    SELECT
        candidate.n, candidate.guard, candidate.lock_delay_seconds AS asked_delay_seconds, lock.id, lock.lease_id,
        lock.fencing_token, lock.owner, lock.holder_id, lock.metadata, lock.token_id AS holder_token_id,
        lock.acquired_at, lock.expires_at, lock.lock_delay_seconds
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
        coalesce(locked.asked_delay_seconds, locked.lock_delay_seconds) AS delay_seconds,
        CASE
            WHEN locked.lease_id IS NULL OR locked.expires_at <= clock.now THEN 'no_lease'
            WHEN locked.guard <> locked.fencing_token THEN 'changed_hands'
            ELSE 'released'
        END AS verdict
    FROM locked
    CROSS JOIN clock
),
updated AS (
    UPDATE octo_lock AS lock SET
        lease_id = NULL, holder_id = NULL, token_id = NULL, session_id = NULL, owner = NULL, metadata = NULL,
        ttl_seconds = NULL, acquired_at = NULL, renewed_at = NULL, expires_at = NULL, renewals = NULL,
        idempotency_digest = NULL, request_digest = NULL, sweep_at = NULL,
        lock_delay_seconds = decided.delay_seconds,
        available_at = CASE WHEN decided.delay_seconds > 0
                            THEN decided.now + decided.delay_seconds * interval '1 second' END,
        changed_at = decided.now
    FROM decided
    WHERE lock.id = decided.id AND decided.verdict = 'released'
    RETURNING decided.n, lock.available_at
),
recorded AS (
    INSERT INTO octo_event (
        at, kind, team_id, space_id, lock_name, fencing_token, owner, holder_id, metadata, token_id, actor_kind,
        actor_id, actor_name, channel, address, request_id, reason, held_ms
    )
    SELECT
        decided.now, 'force_released', caller.team_id, caller.space_id, caller.name, decided.fencing_token,
        decided.owner, decided.holder_id, decided.metadata, decided.holder_token_id, caller.actor_kind,
        caller.actor_id, caller.actor_name, caller.channel, caller.address, caller.request_id, caller.reason,
        octo_ms(decided.now - decided.acquired_at)
    FROM updated
    JOIN decided USING (n)
    JOIN caller USING (n)
    ORDER BY n
    RETURNING id, space_id, lock_name
)
SELECT
    caller.n,
    CASE
        WHEN caller.refusal IS NOT NULL THEN caller.refusal
        WHEN decided.n IS NOT NULL THEN decided.verdict
        WHEN EXISTS (SELECT FROM candidate WHERE candidate.space_id = caller.space_id AND candidate.name = caller.name)
            THEN 'again'
        ELSE 'no_lease'
    END AS verdict,
    caller.name,
    decided.fencing_token,
    decided.owner,
    decided.metadata,
    decided.acquired_at,
    decided.expires_at,
    updated.available_at,
    recorded.id AS event_id,
    clock_timestamp() AS now,
    caller.space_id,
    caller.requests_per_second
FROM caller
LEFT JOIN decided USING (n)
LEFT JOIN updated USING (n)
LEFT JOIN recorded ON updated.n IS NOT NULL
    AND recorded.space_id = caller.space_id AND recorded.lock_name = caller.name
ORDER BY caller.n
