-- Claim-next: acquires the first of the names that is free; a single row.
--
-- $1 is one requests.ClaimNext as JSON. A name whose row is locked by another transaction is skipped rather than waited
-- for, so many workers with the same list spread over it. Such a name may stay free after all, for example if the sweep
-- is recording the end of its last lease: it is passed over, as docs/leases.md says. FOR NO KEY UPDATE checks a row that changed since the snapshot
-- again, with the clock of that moment. A name without a row is inserted. The verdict is `held` only if the snapshot
-- shows no open name. If some are open and none could be acquired (all were skipped, acquired meanwhile or inserted first
-- by another) the verdict is `retry`, with the name to wait for if the first of them has a row.
--
-- A retry must not skip the name that its first attempt is acquiring. So requests with the same idempotency key run one
-- at a time: a request that does not get the key's advisory lock has the verdict `in_progress`; one that gets it checks,
-- with a snapshot taken after that (octo_idempotency_key_in_use is volatile), whether the key has its lease already.
--
-- Names that may have waiters, and those whose lease seems to have ended with its session, are not acquired: the verdict is
-- `needs_handover`, end_and_hand_over.sql decides them, and the request is tried again.
--
-- Frozen names (functions/freeze.sql) are passed over. If no name is open and some are frozen, the verdict is `delayed`, with
-- the first of those.
--
-- Names of namespaces that overlap with others are passed over (`blocked`, see functions/namespaces.sql).
WITH auth AS MATERIALIZED (
    SELECT
        request.names, request.request_id, request.channel, request.address, request.metadata,
        request.lock_delay_seconds, auth.session_id,
        CASE WHEN coalesce(request.ephemeral, NOT auth.octostore_compatibility) OR auth.is_actor THEN auth.session_id END
            AS bound_session_id,
        decode(request.idempotency_digest, 'hex') AS idempotency_digest,
        decode(request.request_digest, 'hex') AS request_digest,
        auth.token_id, auth.public_id, auth.token_name, auth.space_id, auth.team_id, auth.max_ttl_seconds,
        auth.max_hold_seconds, auth.max_metadata_length, auth.requests_per_second, auth.space_is_full, auth.namespaces,
        auth.owner, auth.frozen_until,
        auth.ttl_seconds,
        forbidden.name AS forbidden_name,
        CASE
            WHEN auth.refusal IN ('unauthenticated', 'scope_missing') THEN auth.refusal
            WHEN forbidden.name IS NOT NULL THEN 'name_not_allowed'
            WHEN auth.refusal IS NOT NULL THEN auth.refusal
            WHEN request.idempotency_digest IS NULL THEN NULL
            WHEN NOT pg_try_advisory_xact_lock(hashtextextended(request.digest || request.idempotency_digest, 0))
                THEN 'in_progress'
            WHEN octo_idempotency_key_in_use(
                auth.space_id, request.names, auth.token_id, decode(request.idempotency_digest, 'hex')) THEN 'key_in_use'
        END AS refusal
    FROM json_to_record($1::json) AS request (
        digest text, request_id text, channel text, address inet, names json, ttl_seconds int, metadata text,
        owner text, lock_delay_seconds int, session_id uuid, ephemeral boolean, idempotency_digest text,
        request_digest text
    )
    CROSS JOIN LATERAL octo_acquire_auth_v2(
        request.digest, NULL, request.ttl_seconds, request.metadata, request.owner, request.session_id) AS auth
    LEFT JOIN LATERAL (
        SELECT name FROM json_array_elements_text(request.names) AS name
        WHERE NOT octo_name_matches_prefixes(name, auth.prefixes) LIMIT 1
    ) AS forbidden ON true
),
blocked AS MATERIALIZED (
    SELECT octo_blocked_names(
        auth.space_id, auth.namespaces, ARRAY(SELECT json_array_elements_text(auth.names))) AS names
    FROM auth
    WHERE auth.refusal IS NULL
),
snapshot AS MATERIALIZED (
    SELECT
        requested.index, requested.name, lock.lock_id, lock.held_fencing_token, lock.held_lease_id, lock.held_owner,
        lock.held_metadata, lock.held_acquired_at, lock.held_expires_at, lock.held_request_digest, lock.available_at,
        lock.active_freeze,
        CASE WHEN lock.state = 'recognised' THEN lock.state
             ELSE coalesce((SELECT names FROM blocked) ->> requested.name, lock.state) END AS state
    FROM auth
    CROSS JOIN json_array_elements_text(auth.names) WITH ORDINALITY AS requested (name, index)
    CROSS JOIN LATERAL octo_lock_snapshot_v2(
        auth.space_id, requested.name, auth.token_id, NULL, auth.idempotency_digest, false, NULL, auth.frozen_until) AS lock
    WHERE coalesce(auth.refusal, 'key_in_use') = 'key_in_use'
),
needs_handover AS MATERIALIZED (
    SELECT array_agg(name ORDER BY index) AS names FROM snapshot WHERE state = 'needs_handover'
),
-- The retry of a request whose answer was lost: its lease, unchanged.
recognised AS MATERIALIZED (
    SELECT
        snapshot.*,
        CASE WHEN held_request_digest = auth.request_digest THEN 'recognised' ELSE 'idempotency_conflict' END AS verdict
    FROM snapshot
    CROSS JOIN auth
    WHERE state = 'recognised'
    ORDER BY index
    LIMIT 1
),
room AS MATERIALIZED (
    SELECT
        auth.space_is_full OR octo_space_lacks_room(auth.space_id, 1)
        OR (EXISTS (SELECT FROM snapshot WHERE lock_id IS NULL) AND octo_names_are_full(auth.space_id)) AS is_full
    FROM auth
    WHERE auth.refusal IS NULL
),
may_acquire AS MATERIALIZED (
    SELECT NOT room.is_full AND needs_handover.names IS NULL AS yes FROM room CROSS JOIN needs_handover
),
locked AS MATERIALIZED (
    SELECT
        snapshot.index, lock.id, lock.name, lock.lease_id, lock.fencing_token, lock.owner, lock.holder_id,
        lock.metadata, lock.token_id, lock.acquired_at, lock.expires_at
    FROM snapshot
    JOIN octo_lock AS lock ON lock.id = snapshot.lock_id
    WHERE snapshot.state = 'open'
      AND (SELECT yes FROM may_acquire)
      AND lock.last_waiter_id IS NULL
      AND octo_acl_allows(lock.acl, (SELECT token_id FROM auth))
      AND coalesce(
            octo_available_at(lock.available_at, lock.expires_at, lock.lock_delay_seconds) <= clock_timestamp(), true)
    ORDER BY snapshot.index
    LIMIT 1
    FOR NO KEY UPDATE OF lock SKIP LOCKED
),
clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now, locked_rows FROM (SELECT count(*) AS locked_rows FROM locked) AS all_locked
),
-- The first name without a row, if it comes before the first free one that has a row.
missing_name AS MATERIALIZED (
    SELECT name
    FROM snapshot
    WHERE lock_id IS NULL AND state = 'open' AND (SELECT yes FROM may_acquire) AND index < coalesce((SELECT index FROM locked), 2147483647)
    ORDER BY index
    LIMIT 1
),
new_lease AS MATERIALIZED (
    SELECT
        held.id AS lock_id, held.name, held.lease_id AS held_lease_id, held.fencing_token AS held_fencing_token,
        held.owner AS held_owner, held.holder_id AS held_holder_id, held.metadata AS held_metadata,
        held.token_id AS held_token_id, held.acquired_at AS held_acquired_at, held.expires_at AS held_expires_at,
        auth.*, clock.now,
        gen_random_uuid() AS lease_id,
        octo_holder_id(auth.public_id, auth.session_id) AS holder_id,
        octo_next_fencing_token(coalesce(held.fencing_token, 0), clock.now) AS fencing_token,
        octo_lease_expiry(clock.now, auth.ttl_seconds, clock.now, auth.max_hold_seconds) AS expires_at
    FROM (
        SELECT * FROM locked WHERE NOT EXISTS (SELECT FROM missing_name)
        UNION ALL
        SELECT NULL, NULL, name, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM missing_name
    ) AS held
    CROSS JOIN auth
    CROSS JOIN clock
),
updated AS (
    UPDATE octo_lock AS lock SET
        fencing_token = new.fencing_token, lease_id = new.lease_id, holder_id = new.holder_id, token_id = new.token_id,
        session_id = new.session_id, bound_session_id = new.bound_session_id, owner = new.owner, metadata = new.metadata,
        ttl_seconds = new.ttl_seconds, acquired_at = now, renewed_at = now, expires_at = new.expires_at, renewals = 0,
        idempotency_digest = new.idempotency_digest, request_digest = new.request_digest,
        next_sweep_at = new.expires_at, lock_delay_seconds = new.lock_delay_seconds, available_at = NULL,
        updated_at = now
    FROM new_lease AS new
    WHERE lock.id = new.lock_id
),
inserted AS (
    INSERT INTO octo_lock (
        space_id, name, fencing_token, lease_id, holder_id, token_id, session_id, bound_session_id, owner, metadata,
        ttl_seconds, acquired_at, renewed_at, expires_at, renewals, idempotency_digest, request_digest, next_sweep_at,
        lock_delay_seconds, created_at, updated_at
    )
    SELECT
        space_id, name, fencing_token, lease_id, holder_id, token_id, session_id, bound_session_id, owner, metadata,
        ttl_seconds, now, now, expires_at, 0, idempotency_digest, request_digest, expires_at,
        lock_delay_seconds, now, now
    FROM new_lease
    WHERE lock_id IS NULL
    ON CONFLICT (space_id, name) DO NOTHING
    RETURNING lease_id
),
granted AS MATERIALIZED (
    SELECT * FROM new_lease WHERE lock_id IS NOT NULL OR lease_id IN (SELECT lease_id FROM inserted)
),
recorded AS (
    INSERT INTO octo_event_entry
    SELECT event.*
    FROM granted
    CROSS JOIN LATERAL (
        SELECT * FROM octo_end_event(
            'expired', now, team_id, space_id, name, held_fencing_token, held_owner, held_holder_id, held_metadata,
            held_token_id, held_acquired_at, held_expires_at, channel, request_id)
        WHERE granted.held_lease_id IS NOT NULL
        UNION ALL
        SELECT * FROM octo_grant_event_v2(
            now, team_id, space_id, name, granted.fencing_token, granted.owner, granted.holder_id, granted.metadata,
            granted.token_id, token_name, channel, granted.address, request_id)
    ) AS event
    ORDER BY event.fencing_token
)
SELECT
    CASE
        WHEN needs_handover.names IS NOT NULL THEN 'needs_handover'
        WHEN auth.refusal = 'key_in_use' THEN coalesce(recognised.verdict, 'retry')
        WHEN auth.refusal IS NOT NULL THEN auth.refusal
        WHEN granted.expires_at > clock_timestamp() THEN 'acquired'
        WHEN open.name IS NULL THEN CASE WHEN frozen.name IS NULL THEN 'held' ELSE 'delayed' END
        WHEN (SELECT is_full FROM room) THEN 'space_full'
        ELSE 'retry'
    END AS verdict,
    CASE
        WHEN auth.refusal = 'key_in_use' THEN recognised.name
        WHEN auth.refusal IS NOT NULL THEN auth.forbidden_name
        WHEN open.name IS NULL AND recognised.name IS NULL THEN frozen.name
        ELSE coalesce(granted.name, recognised.name, CASE WHEN open.lock_id IS NOT NULL THEN open.name END)
    END AS name,
    coalesce(granted.lease_id, recognised.held_lease_id) AS lease_id,
    coalesce(granted.fencing_token, recognised.held_fencing_token) AS fencing_token,
    coalesce(granted.owner, recognised.held_owner) AS owner,
    coalesce(granted.metadata, recognised.held_metadata) AS metadata,
    coalesce(granted.now, recognised.held_acquired_at) AS acquired_at,
    coalesce(granted.expires_at, recognised.held_expires_at) AS expires_at,
    (SELECT min(snapshot.available_at) FROM snapshot) AS available_at,
    clock_timestamp() AS now,
    auth.space_id,
    auth.max_ttl_seconds,
    auth.max_metadata_length,
    auth.requests_per_second,
    needs_handover.names AS needs_handover,
    CASE WHEN open.name IS NULL THEN frozen.active_freeze END AS active_freeze
FROM auth
CROSS JOIN needs_handover
LEFT JOIN granted ON true
LEFT JOIN recognised ON true
LEFT JOIN (SELECT lock_id, name FROM snapshot WHERE state = 'open' ORDER BY index LIMIT 1) AS open ON true
LEFT JOIN (
    SELECT name, active_freeze FROM snapshot WHERE state = 'delayed' AND active_freeze IS NOT NULL ORDER BY index LIMIT 1
) AS frozen ON true
