-- Claim-next: the first of the names that is free, acquired; a single row.
--
-- $1 is one requests.ClaimNext as JSON. A name whose row somebody else is working on is passed over rather than
-- waited for, so a crowd of workers with the same list spreads over it. FOR UPDATE looks again at a row that
-- changed since the snapshot, with the clock of that moment. A name without a row is inserted. `held` is said only
-- where the snapshot shows every name closed. If some are open and we got none (all passed over, taken meanwhile,
-- or inserted first by another) the verdict is `again`, with the name to wait for if the first of them has a row.
--
-- A retry must not pass over the name that its first try is just taking. So requests with the same key go one at a
-- time: whoever does not get the key's lock is told `under_way`, and whoever gets it looks, with a snapshot taken
-- after that (octo_idempotency_key_in_use is volatile), whether the key has its lease already.
--
-- Names where somebody may be in line are not ours to take, and neither are those whose lease seems to have died with its
-- session: end_and_hand_over.sql sees to all of those first (the verdict is `settle`), and we go again.
WITH caller AS MATERIALIZED (
    SELECT
        request.names, request.request_id, request.channel, request.address, request.metadata,
        request.lock_delay_seconds, request.session_id,
        CASE WHEN request.ephemeral THEN request.session_id END AS bound_session_id,
        session.effective_expires_at AS session_until,
        decode(request.idempotency_digest, 'hex') AS idempotency_digest,
        decode(request.request_digest, 'hex') AS request_digest,
        coalesce(request.owner, session.owner, live.token_name) AS owner,
        coalesce(request.ttl_seconds, live.default_ttl_seconds) AS ttl_seconds,
        live.token_id, live.public_id, live.token_name, live.space_id, live.team_id, live.max_ttl_seconds,
        live.max_hold_seconds, live.max_metadata_length, live.requests_per_second, live.space_is_full,
        outside.name AS name_outside,
        CASE
            WHEN live.token_id IS NULL THEN 'unauthenticated'
            WHEN NOT 'locks:write' = ANY (live.scopes) THEN 'scope_missing'
            WHEN outside.name IS NOT NULL THEN 'name_not_allowed'
            WHEN request.ttl_seconds > live.max_ttl_seconds THEN 'ttl_too_long'
            WHEN char_length(request.metadata) > live.max_metadata_length THEN 'metadata_too_long'
            WHEN request.session_id IS NOT NULL AND session.effective_expires_at IS NULL THEN 'no_session'
            WHEN session.effective_expires_at <= clock_timestamp() THEN 'session_over'
            WHEN request.idempotency_digest IS NULL THEN NULL
            WHEN NOT pg_try_advisory_xact_lock(hashtextextended(request.digest || request.idempotency_digest, 0))
                THEN 'in_progress'
            WHEN octo_idempotency_key_in_use(live.space_id, request.names, live.token_id, decode(request.idempotency_digest, 'hex'))
                THEN 'known'
        END AS refusal
    FROM json_to_record($1::json) AS request (
        digest text, request_id text, channel text, address inet, names json, ttl_seconds int, metadata text,
        owner text, lock_delay_seconds int, session_id uuid, ephemeral boolean, idempotency_digest text,
        request_digest text
    )
    LEFT JOIN LATERAL (
        SELECT * FROM octo_live_token WHERE octo_live_token.digest = decode(request.digest, 'hex') LIMIT 1
    ) AS live ON true
    LEFT JOIN LATERAL (
        -- By its id alone: a token can have many, and this may be planned when it has none.
        SELECT token_id, owner, least(ended_at, expires_at) AS effective_expires_at FROM octo_session
        WHERE octo_session.id = request.session_id LIMIT 1
    ) AS session ON session.token_id = live.token_id
    LEFT JOIN LATERAL (
        SELECT name FROM json_array_elements_text(request.names) AS name
        WHERE NOT octo_name_matches_prefixes(name, live.prefixes) LIMIT 1
    ) AS outside ON true
),
seen AS MATERIALIZED (
    SELECT
        wanted.turn, wanted.name, lock.id, lock.lease_id, lock.fencing_token, lock.holder_id, lock.owner,
        lock.metadata, lock.acquired_at, lock.expires_at, lock.request_digest, lock.available_at,
        coalesce(lock.available_at <= clock_timestamp(), true) AS is_open,
        coalesce(
            (lock.available_at IS NULL OR lock.available_at <= clock_timestamp()) AND lock.last_waiter_id IS NOT NULL
            OR lock.session_until <= least(lock.expires_at, clock_timestamp()), false) AS unsettled,
        lock.expires_at > clock_timestamp() AND lock.token_id = caller.token_id
            AND lock.idempotency_digest = caller.idempotency_digest AS recognised
    FROM caller
    CROSS JOIN json_array_elements_text(caller.names) WITH ORDINALITY AS wanted (name, turn)
    LEFT JOIN LATERAL (
        SELECT
            id, lease_id, fencing_token, holder_id, token_id, owner, metadata, acquired_at, expires_at,
            idempotency_digest, request_digest, last_waiter_id,
            CASE WHEN bound_session_id IS NOT NULL THEN octo_session_ends_at(bound_session_id) END AS session_until,
            coalesce(available_at, expires_at + lock_delay_seconds * interval '1 second') AS available_at
        FROM octo_lock WHERE octo_lock.space_id = caller.space_id AND octo_lock.name = wanted.name LIMIT 1
    ) AS lock ON true
    WHERE coalesce(caller.refusal, 'known') = 'known'
),
unsettled AS MATERIALIZED (
    SELECT array_agg(name ORDER BY turn) AS names FROM seen WHERE unsettled
),
-- The retry of a request whose answer was lost: its lease, as it is.
kept AS MATERIALIZED (
    SELECT seen.*, CASE WHEN seen.request_digest = caller.request_digest THEN 'recognised' ELSE 'idempotency_conflict' END AS verdict
    FROM seen CROSS JOIN caller
    WHERE seen.recognised
    ORDER BY seen.turn
    LIMIT 1
),
locked AS MATERIALIZED (
    SELECT
        seen.turn, lock.id, lock.name, lock.lease_id, lock.fencing_token, lock.owner, lock.holder_id, lock.metadata,
        lock.token_id, lock.acquired_at, lock.expires_at
    FROM seen
    JOIN octo_lock AS lock ON lock.id = seen.id
    WHERE seen.is_open
      AND (SELECT names IS NULL FROM unsettled)
      AND (SELECT refusal IS NULL AND NOT space_is_full FROM caller)
      AND lock.last_waiter_id IS NULL
      AND coalesce(
            coalesce(lock.available_at, lock.expires_at + lock.lock_delay_seconds * interval '1 second')
            <= clock_timestamp(), true)
    ORDER BY seen.turn
    LIMIT 1
    FOR NO KEY UPDATE OF lock SKIP LOCKED
),
clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now, waited_for FROM (SELECT count(*) AS waited_for FROM locked) AS all_locked
),
-- The first name that has no row yet, if it comes before the first free one that has.
newcomer AS MATERIALIZED (
    SELECT seen.turn, seen.name
    FROM seen
    WHERE seen.id IS NULL
      AND (SELECT names IS NULL FROM unsettled)
      AND (SELECT refusal IS NULL AND NOT space_is_full FROM caller)
      AND seen.turn < coalesce((SELECT turn FROM locked), 2147483647)
    ORDER BY seen.turn
    LIMIT 1
),
updated AS (
    UPDATE octo_lock AS lock SET
        fencing_token = octo_next_fencing_token(locked.fencing_token, clock.now),
        lease_id = gen_random_uuid(),
        holder_id = octo_holder_id(caller.public_id, caller.session_id),
        token_id = caller.token_id,
        session_id = caller.session_id,
        bound_session_id = caller.bound_session_id,
        owner = caller.owner,
        metadata = caller.metadata,
        ttl_seconds = caller.ttl_seconds,
        acquired_at = clock.now,
        renewed_at = clock.now,
        expires_at = clock.now + least(caller.ttl_seconds, caller.max_hold_seconds) * interval '1 second',
        renewals = 0,
        idempotency_digest = caller.idempotency_digest,
        request_digest = caller.request_digest,
        next_sweep_at = clock.now + least(caller.ttl_seconds, caller.max_hold_seconds) * interval '1 second',
        lock_delay_seconds = caller.lock_delay_seconds,
        available_at = NULL,
        updated_at = clock.now
    FROM caller
    CROSS JOIN clock
    CROSS JOIN locked
    WHERE lock.id = locked.id AND NOT EXISTS (SELECT FROM newcomer)
    RETURNING
        lock.name, lock.lease_id, lock.fencing_token, lock.holder_id, lock.owner, lock.metadata, lock.acquired_at,
        lock.expires_at
),
inserted AS (
    INSERT INTO octo_lock AS lock (
        space_id, name, fencing_token, lease_id, holder_id, token_id, owner, metadata, ttl_seconds, acquired_at,
        renewed_at, expires_at, renewals, idempotency_digest, request_digest, next_sweep_at, lock_delay_seconds,
        session_id, bound_session_id, created_at, updated_at
    )
    SELECT
        caller.space_id, newcomer.name, octo_next_fencing_token(0, clock.now), gen_random_uuid(),
        octo_holder_id(caller.public_id, caller.session_id), caller.token_id, caller.owner, caller.metadata, caller.ttl_seconds,
        clock.now, clock.now, clock.now + least(caller.ttl_seconds, caller.max_hold_seconds) * interval '1 second',
        0, caller.idempotency_digest, caller.request_digest,
        clock.now + least(caller.ttl_seconds, caller.max_hold_seconds) * interval '1 second',
        caller.lock_delay_seconds, caller.session_id, caller.bound_session_id, clock.now, clock.now
    FROM newcomer
    CROSS JOIN caller
    CROSS JOIN clock
    ON CONFLICT (space_id, name) DO NOTHING
    RETURNING
        lock.name, lock.lease_id, lock.fencing_token, lock.holder_id, lock.owner, lock.metadata, lock.acquired_at,
        lock.expires_at
),
granted AS MATERIALIZED (
    SELECT * FROM updated
    UNION ALL
    SELECT * FROM inserted
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
            1 AS step, clock.now AS at, 'expired' AS kind, caller.team_id, caller.space_id, locked.name,
            locked.fencing_token, locked.owner, locked.holder_id, locked.metadata, locked.token_id,
            'system' AS actor_kind, NULL::bigint AS actor_id, 'expiry' AS actor_name, caller.channel,
            NULL::inet AS address, caller.request_id, octo_interval_ms(locked.expires_at - locked.acquired_at) AS held_ms,
            octo_interval_ms(clock.now - locked.expires_at) AS recorded_late_ms
        FROM updated
        JOIN locked USING (name)
        CROSS JOIN clock
        CROSS JOIN caller
        WHERE locked.lease_id IS NOT NULL
        UNION ALL
        SELECT
            2, granted.acquired_at, 'acquired', caller.team_id, caller.space_id, granted.name, granted.fencing_token,
            granted.owner, granted.holder_id, granted.metadata, caller.token_id, 'token', caller.token_id,
            caller.token_name, caller.channel, caller.address, caller.request_id, NULL, NULL
        FROM granted
        CROSS JOIN caller
    ) AS history
    ORDER BY step
)
SELECT
    CASE
        WHEN unsettled.names IS NOT NULL THEN 'needs_handover'
        WHEN caller.refusal = 'known' THEN coalesce(kept.verdict, 'retry')
        WHEN caller.refusal IS NOT NULL THEN caller.refusal
        WHEN granted.expires_at > clock_timestamp() THEN 'acquired'
        WHEN open.name IS NULL THEN 'held'
        WHEN caller.space_is_full THEN 'space_full'
        ELSE 'retry'
    END AS verdict,
    CASE
        WHEN caller.refusal = 'known' THEN kept.name
        WHEN caller.refusal IS NOT NULL THEN caller.name_outside
        ELSE coalesce(granted.name, kept.name, CASE WHEN open.id IS NOT NULL THEN open.name END)
    END AS name,
    coalesce(granted.lease_id, kept.lease_id) AS lease_id,
    coalesce(granted.fencing_token, kept.fencing_token) AS fencing_token,
    coalesce(granted.owner, kept.owner) AS owner,
    coalesce(granted.metadata, kept.metadata) AS metadata,
    coalesce(granted.acquired_at, kept.acquired_at) AS acquired_at,
    coalesce(granted.expires_at, kept.expires_at) AS expires_at,
    (SELECT min(seen.available_at) FROM seen) AS available_at,
    clock_timestamp() AS now,
    caller.space_id,
    caller.max_ttl_seconds,
    caller.max_metadata_length,
    caller.requests_per_second,
    unsettled.names AS unsettled
FROM caller
CROSS JOIN unsettled
LEFT JOIN granted ON true
LEFT JOIN kept ON true
LEFT JOIN (SELECT id, name FROM seen WHERE is_open ORDER BY turn LIMIT 1) AS open ON true
