-- Enqueue: gives each request of the batch a place in the queue of its name. One row for each request, in its order.
--
-- $1 is a JSON array of requests.Enqueue. A place is a row with a `queue_seq`: when the request arrived. It counts from the
-- commit: a handover reads the queue after it has locked the lock (octo_hand_to_first_waiter) and an acquire that finds
-- a waiter for a free lock hands it over first (octo_lock_snapshot_v2). So the row is inserted whether or not the row of the
-- lock is locked by another transaction, and no request that arrives after the commit gets the lock first.
--
-- What needs the lock of the row is the mark: `last_waiter_id` makes the statement that frees the lock hand it over. A
-- release that does not see the mark frees the lock for all, so a waiter is marked under the lock of the row, and if the
-- lock is free by then (`is_free`) the caller has to hand it over. This statement does not wait for locked rows, since
-- all requests of the batch would wait: the verdict is `row_locked`, and the request has to come back with its
-- `waiter_id` to be marked.
--
-- A retry (same token and idempotency key) takes over the place of its first attempt: the entry of the first attempt is
-- deleted, so what that attempt still does with its id has no effect. This is decided under the lock of the row, among
-- all entries of the key: the newest stays, with the first place. Of several requests of a batch with one key, and if the
-- queue has changed since the snapshot, the others are decided the next time. A request that lost its entry and comes
-- back (`is_requeue`) takes nothing from a retry: the verdict is `superseded`.
--
-- A name of a namespace (functions/namespaces.sql) can be waited for although it is free, if another name that overlaps is
-- not. The space is marked, so that the release of any name of its namespaces looks for waiters. A frozen name
-- (functions/freeze.sql) can be waited for too. If such a name has no row, it has to get one first: the verdict is
-- `row_missing`.
WITH auth AS MATERIALIZED (
    SELECT
        request.index, request.name, request.server_id, request.wait_ms, request.queue_seq, request.waiter_id,
        request.is_requeue, request.request_id, request.channel, request.address, request.metadata,
        request.lock_delay_seconds, auth.session_id,
        CASE WHEN coalesce(request.ephemeral, NOT auth.octostore_compatibility) OR auth.is_actor THEN auth.session_id END
            AS bound_session_id,
        decode(request.idempotency_digest, 'hex') AS idempotency_digest,
        decode(request.request_digest, 'hex') AS request_digest,
        auth.owner, auth.ttl_seconds, auth.token_id, auth.space_id, space.max_waiters_per_name, space.max_waiters,
        auth.namespaces ? octo_namespace(request.name) AS is_namespaced,
        octo_freeze_of(auth.space_id, auth.frozen_until, request.name) AS active_freeze
    FROM json_to_recordset($1::json) AS request (
        index int, digest text, request_id text, channel text, address inet, name text COLLATE "C", ttl_seconds int,
        metadata text, owner text, lock_delay_seconds int, session_id uuid, ephemeral boolean,
        idempotency_digest text, request_digest text, server_id uuid, wait_ms bigint, queue_seq bigint,
        waiter_id bigint, is_requeue boolean
    )
    CROSS JOIN LATERAL octo_acquire_auth_v2(
        request.digest, request.name, request.ttl_seconds, request.metadata, request.owner, request.session_id) AS auth
    JOIN octo_space AS space ON space.id = auth.space_id
    WHERE auth.refusal IS NULL
),
snapshot AS MATERIALIZED (
    SELECT auth.*, lock.id AS lock_id, lock.last_waiter_id AS snapshot_last_waiter_id
    FROM auth
    CROSS JOIN LATERAL (
        SELECT id, last_waiter_id FROM octo_lock
        WHERE octo_lock.space_id = auth.space_id AND octo_lock.name = auth.name LIMIT 1
    ) AS lock
),
locked AS MATERIALIZED (
    SELECT
        snapshot.index, lock.expires_at, lock.last_waiter_id,
        octo_open_at(
            octo_available_at(lock.available_at, lock.expires_at, lock.lock_delay_seconds), snapshot.active_freeze
        ) AS available_at,
        lock.token_id = snapshot.token_id AND lock.idempotency_digest = snapshot.idempotency_digest AS is_own,
        octo_acl_allows(lock.acl, snapshot.token_id) AS is_listed
    FROM snapshot
    JOIN octo_lock AS lock ON lock.id = snapshot.lock_id
    ORDER BY snapshot.space_id, snapshot.name, snapshot.index
    FOR NO KEY UPDATE OF lock SKIP LOCKED
),
-- The entries that requests come back with, as they are now.
entry AS MATERIALIZED (
    SELECT waiter.id, waiter.handed_lease_id
    FROM snapshot
    JOIN locked USING (index)
    JOIN octo_waiter AS waiter ON waiter.id = snapshot.waiter_id
    FOR UPDATE OF waiter SKIP LOCKED
),
clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now, locked_rows, entries
    FROM (SELECT count(*) AS locked_rows FROM locked) AS all_locked
    CROSS JOIN (SELECT count(*) AS entries FROM entry) AS all_entries
),
-- Counted once for the whole batch, and no further than the limit.
space_count AS MATERIALIZED (
    SELECT space.space_id, queue.length
    FROM (SELECT DISTINCT space_id, max_waiters FROM snapshot) AS space
    CROSS JOIN LATERAL (
        SELECT count(*) AS length
        FROM (
            SELECT FROM octo_waiter AS waiter WHERE waiter.space_id = space.space_id LIMIT space.max_waiters
        ) AS waiter
    ) AS queue
),
counted AS MATERIALIZED (
    SELECT
        snapshot.*, locked.index IS NOT NULL AS is_locked, locked.expires_at, locked.last_waiter_id,
        locked.available_at, locked.is_own, locked.is_listed, clock.now, space_count.length AS waiters_in_space,
        queue.ahead, coalesce(known.queue_seq, snapshot.queue_seq) AS current_seq, known.id AS entry_id,
        entry.id IS NOT NULL AS entry_is_locked, entry.handed_lease_id,
        attempts.first_seq, attempts.enqueued_at AS first_enqueued_at, attempts.replaced_ids,
        attempts.has_other_request, attempts.has_newer,
        row_number() OVER (PARTITION BY snapshot.lock_id ORDER BY snapshot.index) AS nth_of_name,
        row_number() OVER (PARTITION BY snapshot.space_id ORDER BY snapshot.index) AS nth_in_space,
        row_number() OVER (
            PARTITION BY snapshot.lock_id, snapshot.token_id, snapshot.idempotency_digest ORDER BY snapshot.index
        ) AS nth_of_key
    FROM snapshot
    LEFT JOIN locked USING (index)
    JOIN space_count USING (space_id)
    CROSS JOIN clock
    LEFT JOIN octo_waiter AS known ON known.id = snapshot.waiter_id
    LEFT JOIN entry ON entry.id = known.id
    CROSS JOIN LATERAL (
        SELECT count(*) AS ahead FROM octo_waiter AS waiter
        WHERE waiter.space_id = snapshot.space_id AND waiter.name = snapshot.name AND waiter.handed_lease_id IS NULL
          AND waiter.id IS DISTINCT FROM known.id
          AND coalesce(waiter.queue_seq < coalesce(known.queue_seq, snapshot.queue_seq), true)
    ) AS queue
    -- The other entries of the same token and idempotency key.
    CROSS JOIN LATERAL (
        SELECT
            min(waiter.queue_seq) AS first_seq, min(waiter.enqueued_at) AS enqueued_at,
            array_agg(waiter.id) AS replaced_ids,
            coalesce(bool_or(waiter.request_digest IS DISTINCT FROM snapshot.request_digest), false) AS has_other_request,
            coalesce(bool_or(waiter.id > known.id), false) AS has_newer
        FROM octo_waiter AS waiter
        WHERE snapshot.idempotency_digest IS NOT NULL
          AND waiter.space_id = snapshot.space_id AND waiter.name = snapshot.name AND waiter.token_id = snapshot.token_id
          AND waiter.idempotency_digest = snapshot.idempotency_digest AND waiter.handed_lease_id IS NULL
          AND waiter.id IS DISTINCT FROM known.id
    ) AS attempts
),
decision AS MATERIALIZED (
    SELECT
        counted.*,
        CASE
            -- Handed over and claimed, or removed.
            WHEN waiter_id IS NOT NULL AND entry_id IS NULL THEN 'unknown'
            WHEN handed_lease_id IS NOT NULL THEN 'waiting'
            WHEN entry_id IS NOT NULL AND NOT entry_is_locked THEN 'row_locked'
            WHEN is_own AND expires_at > now THEN 'retry'
            WHEN NOT is_listed THEN 'retry'
            WHEN has_other_request THEN 'idempotency_conflict'
            WHEN has_newer OR is_requeue AND first_seq IS NOT NULL THEN 'superseded'
            WHEN first_seq IS NULL
                 AND (ahead + nth_of_name > max_waiters_per_name
                      OR entry_id IS NULL AND waiters_in_space + nth_in_space > max_waiters) THEN 'queue_full'
            WHEN NOT is_locked THEN 'row_locked'
            WHEN idempotency_digest IS NULL THEN 'waiting'
            WHEN nth_of_key = 1 AND last_waiter_id IS NOT DISTINCT FROM snapshot_last_waiter_id THEN 'waiting'
            ELSE 'row_locked'
        END AS verdict
    FROM counted
),
new_waiter AS MATERIALIZED (
    SELECT in_order.*, nextval('octo_waiter_id_seq') AS new_id
    FROM (
        SELECT * FROM decision
        WHERE entry_id IS NULL
          AND (verdict = 'waiting' OR verdict = 'row_locked' AND (idempotency_digest IS NULL OR nth_of_key = 1))
        ORDER BY index
    ) AS in_order
),
placed AS MATERIALIZED (
    SELECT
        new_waiter.*,
        coalesce(CASE WHEN verdict = 'waiting' THEN first_seq END, queue_seq, octo_arrival(now)) AS new_seq
    FROM new_waiter
),
inserted AS (
    INSERT INTO octo_waiter (
        id, queue_seq, space_id, name, server_id, token_id, session_id, bound_session_id, owner, metadata, ttl_seconds,
        lock_delay_seconds, idempotency_digest, request_digest, request_id, channel, address, enqueued_at, deadline_at
    )
    SELECT
        new_id, new_seq, space_id, name, server_id, token_id, session_id, bound_session_id, owner, metadata,
        ttl_seconds, lock_delay_seconds, idempotency_digest, request_digest, request_id, channel, address,
        CASE WHEN verdict = 'waiting' THEN coalesce(first_enqueued_at, now) ELSE now END,
        now + wait_ms * interval '1 millisecond'
    FROM placed
),
moved AS (
    UPDATE octo_waiter AS waiter SET
        queue_seq = least(waiter.queue_seq, decision.first_seq),
        enqueued_at = least(waiter.enqueued_at, decision.first_enqueued_at)
    FROM decision
    WHERE waiter.id = decision.entry_id AND decision.verdict = 'waiting' AND decision.first_seq IS NOT NULL
),
-- The entries that a retry has replaced, and that of a request which does not wait.
removed AS (
    DELETE FROM octo_waiter AS waiter
    USING (
        SELECT unnest(replaced_ids) AS id FROM decision WHERE verdict = 'waiting'
        UNION ALL
        SELECT entry_id FROM decision WHERE verdict IN ('retry', 'idempotency_conflict', 'superseded', 'queue_full')
    ) AS gone
    WHERE waiter.id = gone.id AND waiter.handed_lease_id IS NULL
),
marked AS (
    UPDATE octo_lock AS lock SET
        last_waiter_id = greatest(lock.last_waiter_id, latest.waiter_id), updated_at = latest.now
    FROM (
        SELECT decision.lock_id, max(coalesce(new_waiter.new_id, decision.entry_id)) AS waiter_id, max(decision.now) AS now
        FROM decision
        LEFT JOIN new_waiter USING (index)
        WHERE decision.verdict = 'waiting'
        GROUP BY decision.lock_id
    ) AS latest
    WHERE lock.id = latest.lock_id
),
-- For longer than a request can wait, so that it is seldom updated. A space that another transaction is changing is skipped:
-- its requests are then found by the check of their server process (free_names_with_waiters.sql).
space_to_mark AS MATERIALIZED (
    SELECT space.id
    FROM octo_space AS space
    WHERE space.id = ANY (ARRAY(
        SELECT space_id FROM decision WHERE is_namespaced AND verdict IN ('waiting', 'row_locked')))
      AND coalesce(space.namespace_queue_until < statement_timestamp() + interval '2 minutes', true)
    FOR NO KEY UPDATE SKIP LOCKED
),
marked_space AS (
    UPDATE octo_space AS space SET namespace_queue_until = statement_timestamp() + interval '5 minutes'
    FROM space_to_mark
    WHERE space.id = space_to_mark.id
)
SELECT
    request.index,
    coalesce(
        decision.verdict,
        CASE WHEN auth.is_namespaced OR auth.active_freeze IS NOT NULL THEN 'row_missing' ELSE 'retry' END) AS verdict,
    coalesce(placed.new_id, decision.entry_id) AS waiter_id,
    CASE
        WHEN placed.index IS NOT NULL THEN placed.new_seq
        WHEN decision.verdict = 'waiting' THEN least(decision.current_seq, decision.first_seq)
        WHEN decision.verdict = 'row_locked' THEN coalesce(decision.current_seq, octo_arrival(decision.now))
    END AS queue_seq,
    CASE WHEN decision.verdict = 'waiting' THEN decision.replaced_ids END AS replaced_waiter_ids,
    (decision.ahead + decision.nth_of_name)::int AS position,
    decision.verdict = 'waiting' AND NOT coalesce(decision.available_at > decision.now, false) AS is_free,
    decision.space_id,
    clock_timestamp() AS now
FROM json_to_recordset($1::json) AS request (index int)
LEFT JOIN auth USING (index)
LEFT JOIN decision USING (index)
LEFT JOIN placed USING (index)
ORDER BY request.index
