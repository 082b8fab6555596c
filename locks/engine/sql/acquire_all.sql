-- Acquire-all: all of the names or none; one row for each name, in the order given.
--
-- $1 is one requests.AcquireAll as JSON; its names are distinct. Rows are locked in (space, name) order, whatever the
-- order in the request, and the clock is read after the last (see acquire.sql). All or none can be decided only over
-- rows that can be locked, so names without a row get a free one and the verdict is `retry`.
--
-- Locks that the same holder has already (octo_is_same_holder) are its own: it keeps those leases, never for less time than they had, and gets the others if they are free. A retry that
-- is recognised by its idempotency key alone succeeds only while it holds all of the names; if some of its leases have
-- ended it cannot get the same answer, and those that are left block it. As in acquire.sql, only a lease that the
-- snapshot shows is recognised.
--
-- `handed_lease_id` is the lease of one of the names that was handed over to this request while it waited: it becomes one
-- of the leases if the others are free, and is not changed otherwise. Names that may have waiters, and leases that seem
-- to have ended with their session, get `needs_handover` as in acquire.sql; they are the ones that `is_blocking`.
--
-- If one of the names is frozen (functions/freeze.sql), the verdict is `delayed`.
--
-- Names of namespaces are granted only if no other name overlaps (`conflict`, see functions/namespaces.sql). It is not looked
-- for if the snapshot shows all names as recognised; if one of those has ended meanwhile, the verdict is `retry`.
WITH auth AS MATERIALIZED (
    SELECT
        request.names, request.request_id, request.channel, request.address, request.metadata,
        request.lock_delay_seconds, request.handed_lease_id,
        CASE WHEN coalesce(request.ephemeral, NOT auth.octostore_compatibility) OR auth.is_actor THEN auth.session_id END
            AS bound_session_id,
        decode(request.idempotency_digest, 'hex') AS idempotency_digest,
        decode(request.request_digest, 'hex') AS request_digest,
        auth.*
    FROM json_to_record($1::json) AS request (
        digest text, request_id text, channel text, address inet, names json, ttl_seconds int, metadata text,
        owner text, lock_delay_seconds int, session_id uuid, ephemeral boolean, idempotency_digest text,
        request_digest text, handed_lease_id uuid
    )
    CROSS JOIN LATERAL octo_acquire_auth_v2(
        request.digest, NULL, request.ttl_seconds, request.metadata, request.owner, request.session_id) AS auth
),
requested AS MATERIALIZED (
    SELECT
        requested.name COLLATE "C" AS name, requested.index::int AS index,
        octo_name_matches_prefixes(requested.name, auth.prefixes) AS is_allowed
    FROM auth
    CROSS JOIN json_array_elements_text(auth.names) WITH ORDINALITY AS requested (name, index)
),
refusal AS MATERIALIZED (
    SELECT CASE
        WHEN auth.refusal IN ('unauthenticated', 'scope_missing') THEN auth.refusal
        WHEN EXISTS (SELECT FROM requested WHERE NOT is_allowed) THEN 'name_not_allowed'
        ELSE auth.refusal
    END AS verdict
    FROM auth
),
snapshot AS MATERIALIZED (
    SELECT requested.index, requested.name, lock.*
    FROM auth
    CROSS JOIN requested
    CROSS JOIN LATERAL octo_lock_snapshot_v2(
        auth.space_id, requested.name, auth.token_id, auth.session_id, auth.idempotency_digest,
        auth.octostore_compatibility, auth.handed_lease_id, auth.frozen_until) AS lock
    WHERE (SELECT verdict IS NULL FROM refusal)
),
blocked AS MATERIALIZED (
    SELECT
        count(*) FILTER (WHERE state IN ('held', 'delayed', 'needs_handover', 'not_listed')) > 0 AS by_others,
        count(*) FILTER (WHERE state = 'needs_handover') > 0 AS needs_handover,
        count(*) FILTER (WHERE state = 'not_listed') > 0 AS not_listed,
        count(*) FILTER (WHERE state = 'delayed' AND active_freeze IS NOT NULL) > 0 AS by_freeze,
        count(*) FILTER (WHERE state = 'open') AS to_acquire,
        count(*) = count(lock_id) AS all_have_rows,
        coalesce(bool_and(state = 'recognised'), false) AS all_recognised
    FROM snapshot
),
conflict AS MATERIALIZED (
    SELECT octo_conflict(
        auth.space_id, auth.namespaces, ARRAY(SELECT name FROM requested), true, auth.handed_lease_id) AS conflict
    FROM auth
    CROSS JOIN blocked
    WHERE NOT blocked.all_recognised AND (SELECT verdict IS NULL FROM refusal)
),
overlapped AS MATERIALIZED (
    SELECT octo_blocked_names(auth.space_id, auth.namespaces, ARRAY(SELECT name FROM requested)) AS names
    FROM auth
    CROSS JOIN conflict
    WHERE conflict.conflict IS NOT NULL
),
room AS MATERIALIZED (
    SELECT
        auth.space_is_full OR (NOT blocked.by_others AND octo_space_lacks_room(auth.space_id, blocked.to_acquire))
        OR (NOT blocked.all_have_rows AND octo_names_are_full(auth.space_id)) AS is_full
    FROM auth
    CROSS JOIN blocked
),
inserted AS (
    INSERT INTO octo_lock (space_id, name, fencing_token, lock_delay_seconds)
    SELECT auth.space_id, snapshot.name, 0, 0
    FROM snapshot
    CROSS JOIN auth
    WHERE snapshot.lock_id IS NULL AND NOT (SELECT by_others FROM blocked) AND NOT (SELECT is_full FROM room)
    ORDER BY snapshot.name
    ON CONFLICT (space_id, name) DO NOTHING
),
locked AS MATERIALIZED (
    SELECT
        snapshot.index, lock.id, lock.name, lock.lease_id, lock.fencing_token, lock.holder_id, lock.token_id,
        lock.owner, lock.metadata, lock.acquired_at, lock.expires_at, lock.idempotency_digest, lock.request_digest,
        lock.session_id, lock.last_waiter_id, lock.acl, snapshot.state AS snapshot_state,
        octo_effective_expiry(lock.expires_at, lock.bound_session_id) AS effective_expires_at,
        octo_open_at(
            octo_available_at(
                lock.available_at, octo_effective_expiry(lock.expires_at, lock.bound_session_id), lock.lock_delay_seconds),
            snapshot.active_freeze
        ) AS available_at
    FROM snapshot
    JOIN octo_lock AS lock ON lock.id = snapshot.lock_id
    WHERE (SELECT all_have_rows AND NOT by_others FROM blocked) AND (SELECT conflict IS NULL FROM conflict) IS NOT FALSE
    ORDER BY lock.name
    FOR NO KEY UPDATE OF lock
),
clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now, locked_rows FROM (SELECT count(*) AS locked_rows FROM locked) AS all_locked
),
-- A null state means retry.
decision AS MATERIALIZED (
    SELECT
        locked.*, clock.now,
        CASE
            WHEN locked.effective_expires_at > clock.now THEN
                CASE
                    WHEN locked.lease_id = auth.handed_lease_id THEN 'handed'
                    WHEN locked.token_id = auth.token_id AND locked.idempotency_digest = auth.idempotency_digest
                         AND locked.request_digest IS DISTINCT FROM auth.request_digest THEN 'idempotency_conflict'
                    WHEN octo_is_same_holder(
                        auth.token_id, auth.session_id, locked.token_id, locked.session_id, auth.octostore_compatibility)
                    THEN CASE WHEN locked.snapshot_state = 'recognised' THEN 'own' END
                    WHEN locked.token_id = auth.token_id AND locked.idempotency_digest = auth.idempotency_digest
                    THEN CASE WHEN locked.snapshot_state = 'recognised' THEN 'recognised' END
                    ELSE 'held'
                END
            WHEN NOT octo_acl_allows(locked.acl, auth.token_id) THEN NULL
            WHEN locked.effective_expires_at IS DISTINCT FROM locked.expires_at THEN NULL
            WHEN locked.available_at > clock.now THEN 'delayed'
            WHEN locked.last_waiter_id IS NOT NULL THEN NULL
            WHEN auth.session_expires_at <= clock.now THEN NULL
            WHEN (SELECT is_full FROM room) THEN 'space_full'
            ELSE 'free'
        END AS state
    FROM locked
    CROSS JOIN clock
    CROSS JOIN auth
),
verdict AS MATERIALIZED (
    SELECT
        CASE
            WHEN count(*) = 0 OR count(state) < (SELECT count(*) FROM requested) THEN NULL
            WHEN bool_and(state IN ('own', 'recognised')) THEN 'recognised'
            WHEN bool_and(state IN ('free', 'handed', 'own')) THEN
                CASE WHEN bool_or(state = 'free') AND (SELECT all_recognised FROM blocked) THEN NULL ELSE 'acquired' END
            WHEN bool_or(state = 'idempotency_conflict') THEN 'idempotency_conflict'
            WHEN bool_and(state IN ('space_full', 'own')) THEN 'space_full'
            ELSE 'held'
        END AS verdict
    FROM decision
),
-- A lease that was handed over keeps its id, fencing token and beginning.
new_lease AS MATERIALIZED (
    SELECT
        decision.index, decision.id, decision.now, decision.state <> 'handed' AS is_new,
        CASE WHEN decision.state = 'handed' THEN decision.lease_id ELSE gen_random_uuid() END AS lease_id,
        CASE WHEN decision.state = 'handed' THEN decision.fencing_token
             ELSE octo_next_fencing_token(decision.fencing_token, decision.now) END AS fencing_token,
        CASE WHEN decision.state = 'handed' THEN decision.acquired_at ELSE decision.now END AS acquired_at,
        octo_holder_id(auth.public_id, auth.session_id) AS holder_id,
        octo_lease_expiry(decision.now, auth.ttl_seconds, decision.now, auth.max_hold_seconds) AS expires_at
    FROM decision
    CROSS JOIN auth
    CROSS JOIN verdict
    WHERE verdict.verdict = 'acquired' AND decision.state <> 'own'
),
updated AS (
    UPDATE octo_lock AS lock SET
        fencing_token = new.fencing_token, lease_id = new.lease_id, holder_id = new.holder_id, token_id = auth.token_id,
        session_id = auth.session_id, bound_session_id = auth.bound_session_id, owner = auth.owner,
        metadata = auth.metadata, ttl_seconds = auth.ttl_seconds, acquired_at = new.acquired_at, renewed_at = new.now,
        expires_at = new.expires_at, renewals = 0, idempotency_digest = auth.idempotency_digest,
        request_digest = auth.request_digest, next_sweep_at = new.expires_at,
        lock_delay_seconds = auth.lock_delay_seconds, available_at = NULL, updated_at = new.now
    FROM new_lease AS new
    CROSS JOIN auth
    WHERE lock.id = new.id
),
extended AS (
    UPDATE octo_lock AS lock SET
        ttl_seconds = greatest(lock.ttl_seconds, auth.ttl_seconds),
        renewed_at = greatest(lock.renewed_at, decision.now),
        expires_at = greatest(
            decision.expires_at,
            octo_lease_expiry(decision.now, auth.ttl_seconds, decision.acquired_at, auth.max_hold_seconds)),
        updated_at = decision.now
    FROM decision
    CROSS JOIN auth
    CROSS JOIN verdict
    WHERE lock.id = decision.id AND verdict.verdict IN ('acquired', 'recognised')
      AND decision.state IN ('own', 'recognised')
    RETURNING decision.index, lock.lease_id, lock.expires_at
),
recorded AS (
    INSERT INTO octo_event_entry
    SELECT event.*
    FROM new_lease AS new
    JOIN decision AS held USING (index)
    CROSS JOIN auth
    CROSS JOIN LATERAL (
        SELECT * FROM octo_end_event(
            'expired', new.now, auth.team_id, auth.space_id, held.name, held.fencing_token, held.owner, held.holder_id,
            held.metadata, held.token_id, held.acquired_at, held.expires_at, auth.channel, auth.request_id)
        WHERE held.lease_id IS NOT NULL
        UNION ALL
        SELECT * FROM octo_grant_event_v2(
            new.acquired_at, auth.team_id, auth.space_id, held.name, new.fencing_token, auth.owner, new.holder_id,
            auth.metadata, auth.token_id, auth.token_name, auth.channel, auth.address, auth.request_id)
    ) AS event
    WHERE new.is_new
    ORDER BY new.index, event.fencing_token
)
SELECT
    CASE
        WHEN refusal.verdict IS NOT NULL THEN refusal.verdict
        WHEN blocked.not_listed THEN 'not_listed'
        WHEN conflict.conflict ->> 'verdict' = 'names_overlap' THEN 'names_overlap'
        WHEN conflict.conflict ->> 'verdict' IN ('held', 'delayed') THEN 'held'
        WHEN blocked.needs_handover THEN 'needs_handover'
        WHEN blocked.by_freeze THEN 'delayed'
        WHEN blocked.by_others THEN 'held'
        WHEN conflict.conflict IS NOT NULL THEN 'needs_handover'
        WHEN room.is_full AND verdict.verdict IS NULL THEN 'space_full'
        ELSE coalesce(verdict.verdict, 'retry')
    END AS verdict,
    requested.name,
    CASE
        WHEN blocked.needs_handover AND coalesce(conflict.conflict ->> 'verdict', 'needs_handover') = 'needs_handover'
            THEN snapshot.state = 'needs_handover'
        ELSE coalesce(
            coalesce(decision.state, snapshot.state) IN ('held', 'delayed')
            OR (decision.state = 'recognised' AND verdict.verdict = 'held'), false)
    END AS is_blocking,
    requested.is_allowed,
    coalesce(new.lease_id, extended.lease_id) AS lease_id,
    coalesce(new.fencing_token, decision.fencing_token, snapshot.held_fencing_token) AS fencing_token,
    coalesce(new.holder_id, decision.holder_id, snapshot.held_holder_id) AS holder_id,
    coalesce(CASE WHEN new.index IS NOT NULL THEN auth.owner END, decision.owner, snapshot.held_owner) AS owner,
    CASE WHEN new.index IS NOT NULL THEN auth.metadata
         WHEN decision.index IS NOT NULL THEN decision.metadata
         ELSE snapshot.held_metadata END AS metadata,
    coalesce(new.acquired_at, decision.acquired_at, snapshot.held_acquired_at) AS acquired_at,
    coalesce(new.expires_at, extended.expires_at, decision.effective_expires_at, snapshot.effective_expires_at)
        AS expires_at,
    coalesce(decision.available_at, snapshot.available_at) AS available_at,
    clock_timestamp() AS now,
    auth.space_id,
    auth.max_ttl_seconds,
    auth.max_metadata_length,
    auth.requests_per_second,
    coalesce((SELECT names ? requested.name FROM overlapped), false) AS is_overlapped,
    octo_readable_leases(conflict.conflict -> 'blocked_by', auth.prefixes) AS blocked_by,
    (conflict.conflict ->> 'available_at')::timestamptz AS blocked_until,
    CASE WHEN snapshot.state = 'delayed' THEN snapshot.active_freeze END AS active_freeze
FROM auth
CROSS JOIN refusal
LEFT JOIN conflict ON true
CROSS JOIN verdict
CROSS JOIN blocked
CROSS JOIN room
CROSS JOIN requested
LEFT JOIN snapshot USING (index)
LEFT JOIN decision USING (index)
LEFT JOIN new_lease AS new USING (index)
LEFT JOIN extended USING (index)
ORDER BY requested.index
