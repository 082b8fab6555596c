-- Enqueue: adds each request of the batch to the queue of its name. One row for each request, in its order.
--
-- $1 is a JSON array of requests.Enqueue. The lock is locked first, then its `last_waiter_id` is set, and only then the id
-- of the waiter is assigned: so the order of the ids of a name is that in which their transactions commit, and a
-- statement that frees the lock afterwards sees on its row that a request waits (end_and_hand_over.sql). A lock that has
-- become free meanwhile, and is not the turn of another waiter, is not waited for: the verdict is `retry`, as it is for
-- everything that acquire answers itself.
--
-- This statement does not wait for locked rows, since all requests of the batch would wait: the verdict is `row_locked`
-- and the request is not in the queue, but gets a `queue_seq` to come back with.
--
-- A retry (same token and idempotency key) takes over the entry of its first attempt, with its position. The entry gets
-- a new id, so what the first attempt still does with the old id has no effect. A request that lost its entry and
-- comes back (`is_requeue`) takes nothing from a retry: the verdict is `superseded`.
--
-- A name of a namespace (functions/namespaces.sql) can be waited for although it is free, if another name that overlaps is
-- not. Its lock is not marked with `last_waiter_id`, because it is not handed over when it becomes free, but when it is its
-- turn in the space; the space is marked instead.
WITH auth AS MATERIALIZED (
    SELECT
        request.index, request.name, request.server_id, request.wait_ms, request.queue_seq, request.is_requeue,
        request.request_id, request.channel, request.address, request.metadata, request.lock_delay_seconds,
        request.session_id,
        CASE WHEN request.ephemeral THEN request.session_id END AS bound_session_id,
        decode(request.idempotency_digest, 'hex') AS idempotency_digest,
        decode(request.request_digest, 'hex') AS request_digest,
        auth.owner, auth.ttl_seconds, auth.token_id, auth.space_id, space.max_waiters_per_name, space.max_waiters,
        auth.namespaces ? octo_namespace(request.name) AS is_namespaced,
        CASE WHEN auth.namespaces ? octo_namespace(request.name)
             THEN octo_conflict(auth.space_id, auth.namespaces, ARRAY[request.name], request.is_alone) END AS conflict
    FROM json_to_recordset($1::json) AS request (
        index int, digest text, request_id text, channel text, address inet, name text COLLATE "C", ttl_seconds int,
        metadata text, owner text, lock_delay_seconds int, session_id uuid, ephemeral boolean,
        idempotency_digest text, request_digest text, server_id uuid, wait_ms bigint, queue_seq bigint,
        is_requeue boolean, is_alone boolean
    )
    CROSS JOIN LATERAL octo_acquire_auth(
        request.digest, request.name, request.ttl_seconds, request.metadata, request.owner, request.session_id) AS auth
    JOIN octo_space AS space ON space.id = auth.space_id
    WHERE auth.refusal IS NULL
),
snapshot AS MATERIALIZED (
    SELECT auth.*, lock.id
    FROM auth
    CROSS JOIN LATERAL (
        SELECT id FROM octo_lock WHERE octo_lock.space_id = auth.space_id AND octo_lock.name = auth.name LIMIT 1
    ) AS lock
),
locked AS MATERIALIZED (
    SELECT
        snapshot.*, lock.expires_at, lock.last_waiter_id,
        octo_available_at(lock.available_at, lock.expires_at, lock.lock_delay_seconds) AS available_at,
        lock.token_id = snapshot.token_id AND lock.idempotency_digest = snapshot.idempotency_digest AS is_own
    FROM snapshot
    JOIN octo_lock AS lock ON lock.id = snapshot.id
    ORDER BY snapshot.space_id, snapshot.name, snapshot.index
    FOR NO KEY UPDATE OF lock SKIP LOCKED
),
clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now, locked_rows FROM (SELECT count(*) AS locked_rows FROM locked) AS all_locked
),
-- Counted once for the whole batch, and no further than the limit.
space_count AS MATERIALIZED (
    SELECT space.space_id, queue.length
    FROM (SELECT DISTINCT space_id, max_waiters FROM locked) AS space
    CROSS JOIN LATERAL (
        SELECT count(*) AS length
        FROM (
            SELECT FROM octo_waiter AS waiter WHERE waiter.space_id = space.space_id LIMIT space.max_waiters
        ) AS waiter
    ) AS queue
),
counted AS MATERIALIZED (
    SELECT
        locked.*, clock.now, space_count.length AS waiters_in_space, queue.ahead,
        first_attempt.id AS first_attempt_id, first_attempt.request_digest AS first_attempt_digest,
        row_number() OVER (PARTITION BY locked.id ORDER BY locked.index) AS nth_of_name,
        row_number() OVER (PARTITION BY locked.space_id ORDER BY locked.index) AS nth_in_space
    FROM locked
    JOIN space_count USING (space_id)
    CROSS JOIN clock
    CROSS JOIN LATERAL (
        SELECT count(*) AS ahead FROM octo_waiter AS waiter
        WHERE waiter.space_id = locked.space_id AND waiter.name = locked.name AND waiter.handed_lease_id IS NULL
          AND coalesce(waiter.queue_seq < locked.queue_seq, true)
    ) AS queue
    LEFT JOIN LATERAL (
        SELECT waiter.id, waiter.request_digest FROM octo_waiter AS waiter
        WHERE locked.idempotency_digest IS NOT NULL
          AND waiter.space_id = locked.space_id AND waiter.name = locked.name AND waiter.token_id = locked.token_id
          AND waiter.idempotency_digest = locked.idempotency_digest AND waiter.handed_lease_id IS NULL
        LIMIT 1
    ) AS first_attempt ON true
),
decision AS MATERIALIZED (
    SELECT
        counted.*,
        CASE
            WHEN is_own AND expires_at > now THEN 'retry'
            WHEN conflict ->> 'verdict' = 'unguarded' THEN 'unguarded'
            WHEN first_attempt_id IS NOT NULL THEN
                CASE
                    WHEN first_attempt_digest IS DISTINCT FROM request_digest THEN 'idempotency_conflict'
                    WHEN is_requeue THEN 'superseded'
                    WHEN nth_of_name = 1 THEN 'waiting'
                    ELSE 'retry'
                END
            WHEN NOT coalesce(available_at > now, false) AND last_waiter_id IS NULL AND conflict IS NULL
                 AND nth_of_name = 1 THEN 'retry'
            WHEN ahead + nth_of_name > max_waiters_per_name THEN 'queue_full'
            WHEN waiters_in_space + nth_in_space > max_waiters THEN 'queue_full'
            WHEN coalesce(available_at > now, false) OR last_waiter_id IS NOT NULL OR conflict IS NOT NULL THEN 'waiting'
            ELSE 'retry'
        END AS verdict
    FROM counted
),
new_waiter AS MATERIALIZED (
    SELECT in_order.*, nextval('octo_waiter_id_seq') AS waiter_id
    FROM (SELECT * FROM decision WHERE verdict = 'waiting' AND first_attempt_id IS NULL ORDER BY index) AS in_order
),
inserted AS (
    INSERT INTO octo_waiter (
        id, queue_seq, space_id, name, server_id, token_id, session_id, bound_session_id, owner, metadata, ttl_seconds,
        lock_delay_seconds, idempotency_digest, request_digest, request_id, channel, address, enqueued_at, deadline_at
    )
    SELECT
        waiter_id, coalesce(queue_seq, waiter_id), space_id, name, server_id, token_id, session_id, bound_session_id,
        owner, metadata, ttl_seconds, lock_delay_seconds, idempotency_digest, request_digest, request_id, channel,
        address, now, now + wait_ms * interval '1 millisecond'
    FROM new_waiter
),
replaced AS (
    UPDATE octo_waiter AS waiter SET
        id = nextval('octo_waiter_id_seq'), server_id = decision.server_id, request_id = decision.request_id,
        address = decision.address, deadline_at = decision.now + decision.wait_ms * interval '1 millisecond'
    FROM decision
    WHERE waiter.id = decision.first_attempt_id AND decision.verdict = 'waiting' AND waiter.handed_lease_id IS NULL
    RETURNING waiter.id, waiter.queue_seq, decision.first_attempt_id
),
marked AS (
    UPDATE octo_lock AS lock SET last_waiter_id = latest.waiter_id, updated_at = latest.now
    FROM (
        SELECT id, max(waiter_id) AS waiter_id, max(now) AS now FROM new_waiter WHERE NOT is_namespaced GROUP BY id
    ) AS latest
    WHERE lock.id = latest.id
),
-- For longer than a request can wait, so that it is seldom updated. A space that another transaction is changing is skipped:
-- its requests are then found by the check of their server process (free_names_with_waiters.sql).
space_to_mark AS MATERIALIZED (
    SELECT space.id
    FROM octo_space AS space
    WHERE space.id = ANY (ARRAY(SELECT space_id FROM new_waiter WHERE is_namespaced))
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
    CASE
        WHEN decision.verdict = 'waiting' AND new_waiter.index IS NULL AND replaced.id IS NULL THEN 'retry'
        WHEN decision.index IS NULL AND snapshot.index IS NOT NULL THEN 'row_locked'
        WHEN snapshot.index IS NULL AND auth.conflict IS NOT NULL THEN 'row_missing'
        ELSE coalesce(decision.verdict, 'retry')
    END AS verdict,
    coalesce(new_waiter.waiter_id, replaced.id) AS waiter_id,
    CASE
        WHEN decision.index IS NULL AND snapshot.index IS NOT NULL
            THEN coalesce(snapshot.queue_seq, nextval('octo_waiter_id_seq'))
        ELSE coalesce(new_waiter.queue_seq, new_waiter.waiter_id, replaced.queue_seq)
    END AS queue_seq,
    replaced.first_attempt_id AS replaced_waiter_id,
    (decision.ahead + decision.nth_of_name)::int AS position,
    decision.space_id,
    clock_timestamp() AS now
FROM json_to_recordset($1::json) AS request (index int)
LEFT JOIN auth USING (index)
LEFT JOIN snapshot USING (index)
LEFT JOIN decision USING (index)
LEFT JOIN new_waiter USING (index)
LEFT JOIN replaced ON replaced.first_attempt_id = decision.first_attempt_id
ORDER BY request.index
