-- Acquire-all: all of the names or none; a row for each name, in the order given.
--
-- $1 is one requests.AcquireAll as JSON; its names are distinct. Rows are locked in (space, name) order, whatever the
-- order asked for, and the clock is read after the last (see acquire.sql). All or none can only be decided over rows
-- that can be locked, so names without a row get a free one and the verdict is `again`.
--
-- What the caller's session has already (or its token with the same metadata, where the space goes by that) is its own: it
-- keeps that lease, never for less time than it had, and gets the others if they are free. A retry by its key alone is
-- recognised only while it holds all of the names; if some of its leases have ended it cannot be given the same answer, and
-- those that are left are in its way. As in acquire.sql, only a lease that the snapshot shows is kept.
--
-- `handed_lease_id` is the lease of one of the names, which a request that stood in line for it was handed: it becomes one of the
-- leases if the others are free, and is left as it is otherwise. Names where somebody may be in line, and leases that seem
-- to have died with their session, are settled first, as in acquire.sql; they are the ones that `blocks` is true for.
WITH caller AS MATERIALIZED (
    SELECT
        request.names, request.request_id, request.channel, request.address, request.metadata,
        request.lock_delay_seconds, request.session_id, request.handed_lease_id,
        CASE WHEN request.ephemeral THEN request.session_id END AS bound_session_id,
        session.effective_expires_at AS session_until,
        decode(request.idempotency_digest, 'hex') AS idempotency_digest,
        decode(request.request_digest, 'hex') AS request_digest,
        coalesce(request.owner, session.owner, live.token_name) AS owner,
        coalesce(request.ttl_seconds, live.default_ttl_seconds) AS ttl_seconds,
        live.token_id, live.public_id, live.token_name, live.prefixes, live.space_id, live.team_id,
        live.max_ttl_seconds, live.max_hold_seconds, live.max_metadata_length, live.requests_per_second,
        live.space_is_full, live.dedupe_by_metadata,
        CASE
            WHEN live.token_id IS NULL THEN 'unauthenticated'
            WHEN NOT 'locks:write' = ANY (live.scopes) THEN 'scope_missing'
            WHEN EXISTS (
                SELECT FROM json_array_elements_text(request.names) AS name
                WHERE NOT octo_name_matches_prefixes(name, live.prefixes)
            ) THEN 'name_not_allowed'
            WHEN request.ttl_seconds > live.max_ttl_seconds THEN 'ttl_too_long'
            WHEN char_length(request.metadata) > live.max_metadata_length THEN 'metadata_too_long'
            WHEN request.session_id IS NOT NULL AND session.effective_expires_at IS NULL THEN 'no_session'
            WHEN session.effective_expires_at <= clock_timestamp() THEN 'session_over'
        END AS refusal
    FROM json_to_record($1::json) AS request (
        digest text, request_id text, channel text, address inet, names json, ttl_seconds int, metadata text,
        owner text, lock_delay_seconds int, session_id uuid, ephemeral boolean, idempotency_digest text,
        request_digest text, handed_lease_id uuid
    )
    LEFT JOIN LATERAL (
        SELECT * FROM octo_live_token WHERE octo_live_token.digest = decode(request.digest, 'hex') LIMIT 1
    ) AS live ON true
    LEFT JOIN LATERAL (
        -- By its id alone: a token can have many, and this may be planned when it has none.
        SELECT token_id, owner, least(ended_at, expires_at) AS effective_expires_at FROM octo_session
        WHERE octo_session.id = request.session_id LIMIT 1
    ) AS session ON session.token_id = live.token_id
),
wanted AS MATERIALIZED (
    SELECT wanted.name COLLATE "C" AS name, wanted.turn::int AS turn
    FROM caller
    CROSS JOIN json_array_elements_text(caller.names) WITH ORDINALITY AS wanted (name, turn)
),
seen AS MATERIALIZED (
    SELECT
        wanted.turn, wanted.name, lock.id AS lock_id, lock.fencing_token, lock.holder_id, lock.owner, lock.metadata,
        lock.acquired_at, lock.effective_expires_at,
        coalesce(lock.available_at, lock.effective_expires_at + lock.lock_delay_seconds * interval '1 second') AS available_at,
        CASE
            WHEN lock.effective_expires_at > clock_timestamp() THEN
                CASE WHEN lock.lease_id = caller.handed_lease_id OR lock.session_id = caller.session_id
                          OR (lock.token_id = caller.token_id AND lock.idempotency_digest = caller.idempotency_digest)
                          OR (caller.dedupe_by_metadata AND lock.token_id = caller.token_id
                              AND lock.metadata IS NOT DISTINCT FROM caller.metadata)
                     THEN 'recognised' ELSE 'held' END
            WHEN lock.effective_expires_at IS DISTINCT FROM lock.expires_at THEN 'unsettled'
            WHEN coalesce(lock.available_at, lock.expires_at + lock.lock_delay_seconds * interval '1 second')
                 > clock_timestamp() THEN 'delayed'
            WHEN lock.last_waiter_id IS NOT NULL THEN 'unsettled'
            ELSE 'open'
        END AS state
    FROM caller
    CROSS JOIN wanted
    LEFT JOIN LATERAL (
        SELECT
            octo_lock.*,
            octo_effective_expiry(octo_lock.expires_at, octo_lock.bound_session_id) AS effective_expires_at
        FROM octo_lock WHERE octo_lock.space_id = caller.space_id AND octo_lock.name = wanted.name LIMIT 1
    ) AS lock ON true
    WHERE caller.refusal IS NULL
),
blocked AS MATERIALIZED (
    SELECT
        count(*) FILTER (WHERE state IN ('held', 'delayed', 'unsettled')) > 0 AS by_others,
        count(*) FILTER (WHERE state = 'unsettled') > 0 AS unsettled
    FROM seen
),
seeded AS (
    INSERT INTO octo_lock (space_id, name, fencing_token, lock_delay_seconds)
    SELECT caller.space_id, seen.name, 0, 0
    FROM seen
    CROSS JOIN caller
    WHERE seen.lock_id IS NULL AND NOT (SELECT by_others FROM blocked) AND NOT caller.space_is_full
    ORDER BY seen.name
    ON CONFLICT (space_id, name) DO NOTHING
),
complete AS MATERIALIZED (
    SELECT NOT (SELECT by_others FROM blocked) AND count(*) = count(lock_id) AS all_have_rows FROM seen
),
locked AS MATERIALIZED (
    SELECT
        seen.turn, lock.id, lock.name, lock.lease_id, lock.fencing_token, lock.holder_id, lock.token_id, lock.owner,
        lock.metadata, lock.acquired_at, lock.expires_at, lock.idempotency_digest, lock.request_digest,
        lock.session_id, lock.last_waiter_id, seen.state AS seen_state,
        octo_effective_expiry(lock.expires_at, lock.bound_session_id) AS effective_expires_at,
        coalesce(
            lock.available_at,
            octo_effective_expiry(lock.expires_at, lock.bound_session_id) + lock.lock_delay_seconds * interval '1 second'
        ) AS available_at
    FROM seen
    JOIN octo_lock AS lock ON lock.id = seen.lock_id
    WHERE (SELECT all_have_rows FROM complete)
    ORDER BY lock.name
    FOR NO KEY UPDATE OF lock
),
clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now, locked_rows FROM (SELECT count(*) AS locked_rows FROM locked) AS all_locked
),
decided AS MATERIALIZED (
    SELECT
        locked.*, clock.now,
        CASE
            WHEN locked.effective_expires_at > clock.now THEN
                CASE WHEN locked.lease_id = caller.handed_lease_id THEN 'handed_lease_id'
                     WHEN locked.token_id = caller.token_id AND locked.idempotency_digest = caller.idempotency_digest
                          AND locked.request_digest IS DISTINCT FROM caller.request_digest THEN 'idempotency_conflict'
                     WHEN locked.session_id = caller.session_id
                          OR (caller.dedupe_by_metadata AND locked.token_id = caller.token_id
                              AND locked.metadata IS NOT DISTINCT FROM caller.metadata)
                     THEN CASE WHEN locked.seen_state = 'recognised' THEN 'own' END
                     WHEN locked.token_id = caller.token_id AND locked.idempotency_digest = caller.idempotency_digest
                     THEN CASE WHEN locked.seen_state = 'recognised' THEN 'recognised' END
                     ELSE 'held' END
            WHEN locked.effective_expires_at IS DISTINCT FROM locked.expires_at THEN NULL
            WHEN locked.available_at > clock.now THEN 'delayed'
            WHEN locked.last_waiter_id IS NOT NULL THEN NULL
            WHEN caller.session_until <= clock.now THEN NULL
            WHEN caller.space_is_full THEN 'space_full'
            ELSE 'free'
        END AS state
    FROM locked
    CROSS JOIN clock
    CROSS JOIN caller
),
verdict AS MATERIALIZED (
    SELECT
        CASE
            WHEN count(*) = 0 OR count(state) < (SELECT count(*) FROM wanted) THEN NULL
            WHEN bool_and(state IN ('own', 'recognised')) THEN 'recognised'
            WHEN bool_and(state IN ('free', 'handed_lease_id', 'own')) THEN 'acquired'
            WHEN bool_or(state = 'idempotency_conflict') THEN 'idempotency_conflict'
            WHEN bool_and(state IN ('space_full', 'own')) THEN 'space_full'
            ELSE 'held'
        END AS verdict
    FROM decided
),
updated AS (
    UPDATE octo_lock AS lock SET
        fencing_token = CASE WHEN decided.state = 'handed_lease_id' THEN decided.fencing_token
            ELSE octo_next_fencing_token(decided.fencing_token, decided.now) END,
        lease_id = CASE WHEN decided.state = 'handed_lease_id' THEN decided.lease_id ELSE gen_random_uuid() END,
        holder_id = octo_holder_id(caller.public_id, caller.session_id),
        token_id = caller.token_id,
        session_id = caller.session_id,
        bound_session_id = caller.bound_session_id,
        owner = caller.owner,
        metadata = caller.metadata,
        ttl_seconds = caller.ttl_seconds,
        acquired_at = CASE WHEN decided.state = 'handed_lease_id' THEN decided.acquired_at ELSE decided.now END,
        renewed_at = decided.now,
        expires_at = decided.now + least(caller.ttl_seconds, caller.max_hold_seconds) * interval '1 second',
        renewals = 0,
        idempotency_digest = caller.idempotency_digest,
        request_digest = caller.request_digest,
        next_sweep_at = decided.now + least(caller.ttl_seconds, caller.max_hold_seconds) * interval '1 second',
        lock_delay_seconds = caller.lock_delay_seconds,
        available_at = NULL,
        updated_at = decided.now
    FROM decided
    CROSS JOIN caller
    CROSS JOIN verdict
    WHERE lock.id = decided.id AND verdict.verdict = 'acquired' AND decided.state <> 'own'
    RETURNING
        decided.turn, lock.lease_id, lock.fencing_token, lock.holder_id, lock.owner, lock.metadata, lock.acquired_at,
        lock.expires_at
),
prolonged AS (
    UPDATE octo_lock AS lock SET
        ttl_seconds = greatest(lock.ttl_seconds, caller.ttl_seconds),
        renewed_at = greatest(lock.renewed_at, decided.now),
        expires_at = greatest(
            decided.expires_at,
            least(
                decided.now + caller.ttl_seconds * interval '1 second',
                decided.acquired_at + caller.max_hold_seconds * interval '1 second'
            )
        ),
        updated_at = decided.now
    FROM decided
    CROSS JOIN caller
    CROSS JOIN verdict
    WHERE lock.id = decided.id AND verdict.verdict IN ('acquired', 'recognised') AND decided.state IN ('own', 'recognised')
    RETURNING decided.turn, lock.lease_id, lock.expires_at
),
recorded AS (
    INSERT INTO octo_event (
        at, kind, team_id, space_id, lock_name, fencing_token, owner, holder_id, metadata, token_id, actor_kind,
        actor_id, actor_name, channel, address, request_id, held_ms, recorded_late_ms
    )
    SELECT
        at, kind, team_id, space_id, name, fencing_token, owner, holder_id, metadata, token_id, actor_kind,
        actor_id, actor_name, channel, address, request_id, held_ms, recorded_late_ms
    FROM (
        SELECT
            updated.turn, 1 AS step, decided.now AS at, 'expired' AS kind, caller.team_id, caller.space_id,
            decided.name, decided.fencing_token, decided.owner, decided.holder_id, decided.metadata,
            decided.token_id, 'system' AS actor_kind, NULL::bigint AS actor_id, 'expiry' AS actor_name,
            caller.channel, NULL::inet AS address, caller.request_id,
            octo_interval_ms(decided.expires_at - decided.acquired_at) AS held_ms,
            octo_interval_ms(decided.now - decided.expires_at) AS recorded_late_ms
        FROM updated
        JOIN decided USING (turn)
        CROSS JOIN caller
        WHERE decided.lease_id IS NOT NULL AND decided.state <> 'handed_lease_id'
        UNION ALL
        SELECT
            updated.turn, 2, updated.acquired_at, 'acquired', caller.team_id, caller.space_id, decided.name,
            updated.fencing_token, updated.owner, updated.holder_id, updated.metadata, caller.token_id, 'token',
            caller.token_id, caller.token_name, caller.channel, caller.address, caller.request_id, NULL, NULL
        FROM updated
        JOIN decided USING (turn)
        CROSS JOIN caller
        WHERE decided.state <> 'handed_lease_id'
    ) AS history
    ORDER BY turn, step
)
SELECT
    CASE
        WHEN caller.refusal IS NOT NULL THEN caller.refusal
        WHEN blocked.unsettled THEN 'needs_handover'
        WHEN blocked.by_others THEN 'held'
        WHEN caller.space_is_full AND verdict.verdict IS NULL THEN 'space_full'
        ELSE coalesce(verdict.verdict, 'retry')
    END AS verdict,
    wanted.name,
    CASE
        WHEN blocked.unsettled THEN seen.state = 'unsettled'
        ELSE coalesce(
            coalesce(decided.state, seen.state) IN ('held', 'delayed')
            OR (decided.state = 'recognised' AND verdict.verdict = 'held'), false)
    END AS blocks,
    octo_name_matches_prefixes(wanted.name, caller.prefixes) AS allowed,
    coalesce(updated.lease_id, prolonged.lease_id) AS lease_id,
    coalesce(updated.fencing_token, decided.fencing_token, seen.fencing_token) AS fencing_token,
    coalesce(updated.holder_id, decided.holder_id, seen.holder_id) AS holder_id,
    coalesce(updated.owner, decided.owner, seen.owner) AS owner,
    CASE WHEN updated.turn IS NOT NULL THEN updated.metadata
         WHEN decided.turn IS NOT NULL THEN decided.metadata
         ELSE seen.metadata END AS metadata,
    coalesce(updated.acquired_at, decided.acquired_at, seen.acquired_at) AS acquired_at,
    coalesce(updated.expires_at, prolonged.expires_at, decided.effective_expires_at, seen.effective_expires_at) AS expires_at,
    coalesce(decided.available_at, seen.available_at) AS available_at,
    clock_timestamp() AS now,
    caller.space_id,
    caller.max_ttl_seconds,
    caller.max_metadata_length,
    caller.requests_per_second
FROM caller
CROSS JOIN verdict
CROSS JOIN blocked
CROSS JOIN wanted
LEFT JOIN seen USING (turn)
LEFT JOIN decided USING (turn)
LEFT JOIN updated USING (turn)
LEFT JOIN prolonged USING (turn)
ORDER BY wanted.turn
