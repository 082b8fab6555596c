-- Acquire: one row for each request of the batch, in its order.
--
-- $1 is a JSON array of requests.Acquire.
--
-- Why a statement that had to wait is right. A name that is plainly held is answered from the snapshot: it was held
-- while the request was in progress, so no row lock is needed. All other names are decided on `locked`: FOR NO KEY
-- UPDATE waits for the transaction that is changing the row and then returns the row as that transaction left it, so
-- a lease that was renewed meanwhile counts as renewed. `clock` is read only after all rows are locked, so time spent
-- waiting counts: a lease that expired meanwhile has ended, and a new one starts at the end of the wait. A name without
-- a row is inserted; if another transaction inserted it first, nothing is changed and the verdict is `retry`: the
-- snapshot of the next statement shows the row. After `clock` only an insert can have waited, and in the end only for
-- one that was rolled back; what has expired by then, at `finish`, gets `retry` too.
--
-- Why batches cannot deadlock. Rows are locked in (space, name) order, all of them before the first insert, and inserts
-- follow in the same order. So a statement that waits for a row holds only lower rows and has inserted nothing, and a
-- statement that waits for an insert waits for a statement whose remaining inserts are higher. Every statement
-- sorts names by the collation of the column, not by the database's default.
--
-- Sessions and queues. `effective_expires_at` is when a lease ends: by its own expiry, or with the session that it is
-- bound to. A keepalive never shortens a session, so the snapshot's session can only be too early. That is good enough
-- to answer `held`, but not to treat the lease as ended. A lease that seems to have ended with its session, and a free
-- name that requests may be waiting for, get the verdict `needs_handover` and nothing is changed. end_and_hand_over.sql
-- then decides on locked rows, ends the lease or hands the lock over, and the request is tried again.
--
-- Namespaces. A name of a namespace is granted only if `conflict` is null: octo_conflict (functions/namespaces.sql) takes the
-- guard of the space, before any row is locked, and looks for other names that overlap. A plain name is not passed to it.
--
-- A request that waits (`wait_ms`) and does not get the lock has its place in the queue with this statement, by its arrival
-- (`queue_seq`); the verdict is `waiting`. enqueue.sql says why no later request gets the lock first, and marks the lock. A
-- frozen name without a row gets one there, since a lock without a row is never handed over.
--
-- Access lists. The snapshot is enough to refuse a token, but not to let it in: octo_state_under_acl checks the locked row again.
-- A list that the request brings is set with the lease and stays after it.
--
-- Persons. A request with a `user_id` reserves the lock for a person, who was authorised for `space_id` before: the lease has no
-- token. See octo_reserve_auth.
--
-- In all CTEs the plain columns are the lease that is asked for and the held_ columns the one that the lock has. Every
-- CTE carries what the later ones need: planned for few requests, joins between them would be nested loops.
WITH auth AS MATERIALIZED (
    SELECT
        request.index, request.request_id, request.channel, request.address, request.name, request.metadata,
        request.lock_delay_seconds, request.server_id, request.wait_ms, request.queue_seq, request.acl, request.user_id,
        CASE WHEN coalesce(request.ephemeral, NOT auth.octostore_compatibility) OR auth.is_actor THEN auth.session_id END
            AS bound_session_id,
        decode(request.idempotency_digest, 'hex') AS idempotency_digest,
        decode(request.request_digest, 'hex') AS request_digest,
        auth.*,
        CASE WHEN auth.namespaces ? octo_namespace(request.name) AND auth.refusal IS NULL
             THEN octo_conflict(auth.space_id, auth.namespaces, ARRAY[request.name], request.is_alone) END AS conflict
    FROM json_to_recordset($1::json) AS request (
        index int, digest text, request_id text, channel text, address inet,
        name text COLLATE "C", ttl_seconds int, metadata text, owner text, lock_delay_seconds int,
        session_id uuid, ephemeral boolean, idempotency_digest text, request_digest text, is_alone boolean, server_id uuid,
        wait_ms bigint, queue_seq bigint, acl text[], user_id bigint, space_id bigint
    )
    CROSS JOIN LATERAL (
        SELECT * FROM octo_acquire_auth_v2(
            request.digest, request.name, request.ttl_seconds, request.metadata, request.owner, request.session_id)
        WHERE request.user_id IS NULL
        UNION ALL
        SELECT * FROM octo_reserve_auth(
            request.user_id, request.space_id, request.owner, request.ttl_seconds, request.metadata)
        WHERE request.user_id IS NOT NULL
    ) AS auth
),
snapshot AS MATERIALIZED (
    SELECT
        auth.index, auth.request_id, auth.channel, auth.address, auth.name, auth.metadata, auth.lock_delay_seconds,
        auth.session_id, auth.bound_session_id, auth.idempotency_digest, auth.request_digest, auth.token_id,
        auth.public_id, auth.token_name, auth.space_id, auth.team_id, auth.max_hold_seconds,
        auth.octostore_compatibility, auth.space_is_full, auth.conflict, auth.owner, auth.ttl_seconds,
        auth.session_expires_at, auth.acl, auth.user_id, lock.*
    FROM auth
    CROSS JOIN LATERAL octo_lock_snapshot_v2(
        auth.space_id, auth.name, auth.token_id, auth.session_id, auth.idempotency_digest,
        auth.octostore_compatibility, NULL, auth.frozen_until) AS lock
    WHERE auth.refusal IS NULL
),
-- The same columns, with the lock as it is now.
locked AS MATERIALIZED (
    SELECT
        snapshot.index, snapshot.request_id, snapshot.channel, snapshot.address, snapshot.name, snapshot.metadata,
        snapshot.lock_delay_seconds, snapshot.session_id, snapshot.bound_session_id, snapshot.idempotency_digest,
        snapshot.request_digest, snapshot.token_id, snapshot.public_id, snapshot.token_name, snapshot.space_id,
        snapshot.team_id, snapshot.max_hold_seconds, snapshot.octostore_compatibility, snapshot.space_is_full,
        snapshot.conflict, snapshot.owner, snapshot.ttl_seconds, snapshot.session_expires_at, snapshot.acl,
        snapshot.user_id,
        lock.id, lock.fencing_token, lock.lease_id, lock.holder_id, lock.token_id, lock.owner, lock.metadata,
        lock.acquired_at, lock.expires_at, lock.idempotency_digest, lock.request_digest, lock.lock_delay_seconds,
        lock.session_id, lock.last_waiter_id,
        octo_effective_expiry(lock.expires_at, lock.bound_session_id),
        octo_open_at(
            octo_available_at(lock.available_at, lock.expires_at, lock.lock_delay_seconds), snapshot.active_freeze),
        octo_state_under_acl(
            snapshot.state, lock.acl, snapshot.acl, snapshot.token_id,
            lock.idempotency_digest = snapshot.idempotency_digest),
        snapshot.active_freeze
    FROM snapshot
    JOIN octo_lock AS lock ON lock.id = snapshot.lock_id
    WHERE snapshot.state IN ('open', 'recognised')
    ORDER BY snapshot.space_id, snapshot.name
    FOR NO KEY UPDATE OF lock
),
clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now, locked_rows FROM (SELECT count(*) AS locked_rows FROM locked) AS all_locked
),
-- A null verdict means retry. Of several requests for an open name the first one gets it. Only a lease that the snapshot
-- shows is recognised: an update is first tried, and its constraints checked, on the row of the snapshot.
decision AS MATERIALIZED (
    SELECT
        lock.*, clock.now,
        CASE
            WHEN lock.state IN ('not_listed', 'acl_conflict') THEN lock.state
            WHEN lock.effective_expires_at > clock.now THEN
                CASE
                    WHEN held_token_id = token_id AND held_idempotency_digest = idempotency_digest THEN
                        CASE
                            WHEN held_request_digest IS DISTINCT FROM request_digest THEN 'idempotency_conflict'
                            WHEN state = 'recognised' THEN 'recognised'
                        END
                    WHEN octo_is_same_holder(
                        token_id, session_id, held_token_id, held_session_id, octostore_compatibility) THEN
                        CASE WHEN state = 'recognised' THEN 'recognised' END
                    ELSE 'held'
                END
            -- Ended with its session, or bound to one that the snapshot does not show.
            WHEN lock.effective_expires_at IS DISTINCT FROM lock.held_expires_at THEN
                CASE WHEN state = 'needs_handover' THEN 'needs_handover' END
            WHEN lock.conflict IS NOT NULL THEN 'blocked'
            WHEN lock.available_at > clock.now THEN 'delayed'
            WHEN state = 'needs_handover' THEN 'needs_handover'
            WHEN lock.last_waiter_id IS NOT NULL THEN NULL
            WHEN lock.session_expires_at <= clock.now THEN NULL
            -- A lease that was recognised and has ended since: the access list was not checked.
            WHEN lock.state <> 'open' THEN NULL
            WHEN lock.space_is_full OR (lock.lock_id IS NULL AND octo_names_are_full(lock.space_id)) THEN 'space_full'
            WHEN row_number() OVER (PARTITION BY space_id, name ORDER BY index) = 1 THEN 'acquired'
        END AS verdict
    FROM (
        SELECT * FROM snapshot WHERE lock_id IS NULL OR state NOT IN ('open', 'recognised')
        UNION ALL
        SELECT * FROM locked
    ) AS lock
    CROSS JOIN clock
),
new_lease AS MATERIALIZED (
    SELECT
        decision.*,
        gen_random_uuid() AS lease_id,
        octo_holder_id(public_id, session_id) AS holder_id,
        octo_next_fencing_token(coalesce(held_fencing_token, 0), now) AS fencing_token,
        octo_lease_expiry(now, ttl_seconds, now, max_hold_seconds) AS expires_at
    FROM decision
    WHERE verdict = 'acquired'
),
updated AS (
    UPDATE octo_lock AS lock SET
        fencing_token = new.fencing_token, lease_id = new.lease_id, holder_id = new.holder_id, token_id = new.token_id,
        session_id = new.session_id, bound_session_id = new.bound_session_id, owner = new.owner, metadata = new.metadata,
        ttl_seconds = new.ttl_seconds, acquired_at = now, renewed_at = now, expires_at = new.expires_at, renewals = 0,
        idempotency_digest = new.idempotency_digest, request_digest = new.request_digest,
        next_sweep_at = new.expires_at, lock_delay_seconds = new.lock_delay_seconds, available_at = NULL,
        acl = coalesce(new.acl, lock.acl), updated_at = now
    FROM new_lease AS new
    WHERE lock.id = new.lock_id
),
inserted AS (
    INSERT INTO octo_lock (
        space_id, name, fencing_token, lease_id, holder_id, token_id, session_id, bound_session_id, owner, metadata,
        ttl_seconds, acquired_at, renewed_at, expires_at, renewals, idempotency_digest, request_digest, next_sweep_at,
        lock_delay_seconds, acl, created_at, updated_at
    )
    SELECT
        space_id, name, fencing_token, lease_id, holder_id, token_id, session_id, bound_session_id, owner, metadata,
        ttl_seconds, now, now, expires_at, 0, idempotency_digest, request_digest, expires_at,
        lock_delay_seconds, acl, now, now
    FROM new_lease
    WHERE lock_id IS NULL
    ORDER BY space_id, name
    ON CONFLICT (space_id, name) DO NOTHING
    RETURNING lease_id
),
granted AS MATERIALIZED (
    SELECT * FROM new_lease WHERE lock_id IS NOT NULL OR lease_id IN (SELECT lease_id FROM inserted)
),
-- A recognised caller keeps its lease, never for less time than it had.
recognised AS MATERIALIZED (
    SELECT
        decision.*,
        max(ttl_seconds) OVER same_lock AS longest_ttl_seconds,
        greatest(
            held_expires_at,
            octo_lease_expiry(now, max(ttl_seconds) OVER same_lock, held_acquired_at, max_hold_seconds)
        ) AS expires_at
    FROM decision
    WHERE verdict = 'recognised'
    WINDOW same_lock AS (PARTITION BY lock_id)
),
extended AS (
    UPDATE octo_lock AS lock SET
        ttl_seconds = greatest(lock.ttl_seconds, longest_ttl_seconds), renewed_at = greatest(lock.renewed_at, now),
        expires_at = recognised.expires_at, updated_at = now
    FROM recognised
    WHERE lock.id = recognised.lock_id
),
-- If the lock had an expired lease that the sweep has not seen, its end is recorded first.
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
            granted.token_id, token_name, channel, granted.address, request_id,
            CASE WHEN granted.acl IS NOT NULL THEN jsonb_build_object('acl', granted.acl) END, granted.user_id)
    ) AS event
    ORDER BY granted.index, event.fencing_token
),
lease AS MATERIALIZED (
    SELECT index, lease_id, fencing_token, holder_id, owner, metadata, now AS acquired_at, expires_at FROM granted
    UNION ALL
    SELECT
        index, held_lease_id, held_fencing_token, held_holder_id, held_owner, held_metadata, held_acquired_at, expires_at
    FROM recognised
),
finish AS MATERIALIZED (
    SELECT clock_timestamp() AS now, leases FROM (SELECT count(*) AS leases FROM lease) AS all_inserted
),
new_waiter AS MATERIALIZED (
    SELECT in_order.*, nextval('octo_waiter_id_seq') AS waiter_id
    FROM (
        SELECT auth.*, decision.now
        FROM auth
        JOIN decision USING (index)
        WHERE auth.wait_ms IS NOT NULL AND decision.verdict IN ('held', 'delayed', 'needs_handover')
          AND decision.lock_id IS NOT NULL
        ORDER BY auth.index
    ) AS in_order
),
enqueued AS (
    INSERT INTO octo_waiter (
        id, queue_seq, space_id, name, server_id, token_id, session_id, bound_session_id, owner, metadata, ttl_seconds,
        lock_delay_seconds, idempotency_digest, request_digest, request_id, channel, address, enqueued_at, deadline_at
    )
    SELECT
        waiter_id, coalesce(queue_seq, octo_arrival(now)), space_id, name, server_id, token_id, session_id,
        bound_session_id, owner, metadata,
        ttl_seconds, lock_delay_seconds, idempotency_digest, request_digest, request_id, channel, address, now,
        now + wait_ms * interval '1 millisecond'
    FROM new_waiter
)
SELECT
    auth.index,
    CASE
        WHEN auth.refusal IS NOT NULL THEN auth.refusal
        WHEN new_waiter.index IS NOT NULL THEN 'waiting'
        WHEN decision.verdict IN ('acquired', 'recognised') AND lease.expires_at > finish.now THEN decision.verdict
        WHEN decision.verdict IN ('held', 'idempotency_conflict') AND decision.effective_expires_at > finish.now
            THEN decision.verdict
        WHEN decision.verdict = 'delayed' AND decision.available_at > finish.now THEN 'delayed'
        WHEN decision.verdict IN ('space_full', 'needs_handover', 'not_listed', 'acl_conflict') THEN decision.verdict
        WHEN decision.verdict = 'blocked' THEN decision.conflict ->> 'verdict'
        ELSE 'retry'
    END AS verdict,
    auth.name,
    lease.lease_id,
    coalesce(lease.fencing_token, decision.held_fencing_token) AS fencing_token,
    coalesce(lease.holder_id, decision.held_holder_id) AS holder_id,
    coalesce(lease.owner, decision.held_owner) AS owner,
    CASE WHEN lease.index IS NULL THEN decision.held_metadata ELSE lease.metadata END AS metadata,
    coalesce(lease.acquired_at, decision.held_acquired_at) AS acquired_at,
    -- The caller's own lease without regard to its session; another's as it will end, which may be with its session.
    coalesce(lease.expires_at, decision.effective_expires_at) AS expires_at,
    CASE WHEN decision.verdict = 'blocked' THEN (decision.conflict ->> 'available_at')::timestamptz
         ELSE decision.available_at END AS available_at,
    decision.held_delay_seconds AS lock_delay_seconds,
    CASE WHEN decision.verdict IN ('held', 'blocked') THEN (
        SELECT count(*)::int FROM octo_waiter
        WHERE octo_waiter.space_id = decision.space_id AND octo_waiter.name = decision.name
          AND octo_waiter.handed_lease_id IS NULL
    ) ELSE 0 END AS waiters,
    finish.now,
    auth.space_id,
    auth.max_ttl_seconds,
    auth.max_metadata_length,
    auth.requests_per_second,
    CASE WHEN decision.verdict IN ('held', 'blocked') AND auth.namespaces ? octo_namespace(auth.name)
         THEN coalesce(octo_readable_leases(decision.conflict -> 'blocked_by', auth.prefixes), '[]') END AS blocked_by,
    new_waiter.waiter_id,
    CASE WHEN decision.verdict = 'delayed' THEN decision.active_freeze END AS active_freeze
FROM auth
CROSS JOIN finish
LEFT JOIN decision USING (index)
LEFT JOIN lease USING (index)
LEFT JOIN new_waiter USING (index)
ORDER BY auth.index
