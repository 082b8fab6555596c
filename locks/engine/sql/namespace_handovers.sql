-- What has to be done in a space so that names of its namespaces can be acquired: one row for each name.
--
-- $1 is the space · $2 names that are asked for, besides those that requests wait for
--
-- A name that `serves_queue` is the turn of its first waiter, as far as the snapshot shows: end_and_hand_over.sql decides that
-- under the guard. The others have a lease that is over and overlaps with such a name, or with one of $2; it has to be ended
-- first. See functions/namespaces.sql.
WITH waiter AS MATERIALIZED (
    SELECT DISTINCT ON (present.name) present.name, present.queue_seq, present.id, space.namespaces
    FROM octo_space AS space
    CROSS JOIN LATERAL octo_present_waiters(space.id) AS present
    WHERE space.id = $1::bigint AND space.namespaces ? octo_namespace(present.name)
    ORDER BY present.name, present.queue_seq, present.id
),
-- The first waiter of each name that no earlier one overlaps with.
first AS MATERIALIZED (
    SELECT waiter.name, true AS serves_queue, waiter.namespaces
    FROM waiter
    WHERE NOT EXISTS (
        SELECT FROM octo_overlapping_ranges(waiter.namespaces, waiter.name) AS range
        JOIN waiter AS earlier ON earlier.name >= range.low COLLATE "C" AND earlier.name < range.high COLLATE "C"
            AND (earlier.queue_seq, earlier.id) < (waiter.queue_seq, waiter.id)
    )
    UNION ALL
    SELECT requested, false, space.namespaces
    FROM octo_space AS space
    CROSS JOIN unnest($2::text[]) AS requested
    WHERE space.id = $1::bigint AND space.namespaces ? octo_namespace(requested)
),
blocked AS MATERIALIZED (
    SELECT
        first.name, first.serves_queue,
        bool_or(coalesce(lock.ends_at, lock.available_at) > clock_timestamp()) IS TRUE AS by_others,
        array_agg(lock.name) FILTER (WHERE lock.name <> first.name) AS over
    FROM first
    CROSS JOIN LATERAL (
        SELECT array_agg(low) AS lows, array_agg(high) AS highs FROM octo_overlapping_ranges(first.namespaces, first.name)
    ) AS range
    LEFT JOIN LATERAL octo_closed_locks($1::bigint, range.lows, range.highs) AS lock ON true
    GROUP BY first.name, first.serves_queue
)
SELECT DISTINCT $1::bigint AS space_id, over.name, false AS serves_queue
FROM blocked
CROSS JOIN LATERAL unnest(blocked.over) AS over (name)
WHERE NOT blocked.by_others
UNION
SELECT $1::bigint, name, true FROM blocked WHERE serves_queue AND NOT by_others
