-- Leave the line: takes the places of these waiters back. One row each.
--
-- $1 is an array of waiters' ids, $2 the server where they stand, if it matters: a retry may have taken a place over to
-- another. A row that somebody is just changing is passed over, and said to be `again`: it may be
-- being handed a lease, which then has to be given on. `position` is the place it had, from 1.
WITH mine AS MATERIALIZED (
    SELECT id FROM octo_waiter
    WHERE id = ANY ($1::bigint[]) AND ($2::uuid IS NULL OR server_id = $2::uuid)
    ORDER BY id
    FOR UPDATE SKIP LOCKED
),
gone AS (
    DELETE FROM octo_waiter AS waiter USING mine WHERE waiter.id = mine.id
    RETURNING waiter.id, waiter.space_id, waiter.name, waiter.queue_seq, waiter.handed_lease_id AS lease_id
)
SELECT
    asked.id AS waiter_id,
    CASE
        WHEN gone.id IS NOT NULL THEN 'left'
        WHEN still.id IS NOT NULL THEN 'retry'
        ELSE 'unknown'
    END AS verdict,
    coalesce(gone.space_id, still.space_id) AS space_id,
    coalesce(gone.name, still.name) AS name,
    gone.lease_id,
    (
        SELECT count(*)::int + 1 FROM octo_waiter AS waiter
        WHERE waiter.space_id = gone.space_id AND waiter.name = gone.name AND waiter.handed_lease_id IS NULL
          AND (waiter.queue_seq, waiter.id) < (gone.queue_seq, gone.id)
    ) AS position
FROM unnest($1::bigint[]) AS asked (id)
LEFT JOIN gone ON gone.id = asked.id
LEFT JOIN octo_waiter AS still ON still.id = asked.id AND ($2::uuid IS NULL OR still.server_id = $2::uuid)
