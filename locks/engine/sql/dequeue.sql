-- Dequeue: removes these waiters from their queues. One row for each.
--
-- $1 is an array of waiter ids, $2 the server process that they wait at, or null for any: a retry may have moved an entry to
-- another. A row that another transaction is changing is skipped with the verdict `retry`: it may be being handed a lease,
-- which then has to be returned. `position` is the one that it had, from 1.
WITH locked AS MATERIALIZED (
    SELECT id FROM octo_waiter
    WHERE id = ANY ($1::bigint[]) AND ($2::uuid IS NULL OR server_id = $2::uuid)
    ORDER BY id
    FOR UPDATE SKIP LOCKED
),
deleted AS (
    DELETE FROM octo_waiter AS waiter USING locked WHERE waiter.id = locked.id
    RETURNING waiter.id, waiter.space_id, waiter.name, waiter.queue_seq, waiter.handed_lease_id AS lease_id
)
SELECT
    request.id AS waiter_id,
    CASE
        WHEN deleted.id IS NOT NULL THEN 'left'
        WHEN waiter.id IS NOT NULL THEN 'retry'
        ELSE 'unknown'
    END AS verdict,
    coalesce(deleted.space_id, waiter.space_id) AS space_id,
    coalesce(deleted.name, waiter.name) AS name,
    deleted.lease_id,
    (
        SELECT count(*)::int + 1 FROM octo_waiter AS ahead
        WHERE ahead.space_id = deleted.space_id AND ahead.name = deleted.name AND ahead.handed_lease_id IS NULL
          AND (ahead.queue_seq, ahead.id) < (deleted.queue_seq, deleted.id)
    ) AS position
FROM unnest($1::bigint[]) AS request (id)
LEFT JOIN deleted ON deleted.id = request.id
LEFT JOIN octo_waiter AS waiter ON waiter.id = request.id AND ($2::uuid IS NULL OR waiter.server_id = $2::uuid)
