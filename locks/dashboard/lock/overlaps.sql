-- What overlaps with a name of a namespace: live leases of other names, which block it, and waiters for other names, which it
-- blocks if it is held. At most so many of each. Changes nothing.
WITH range AS MATERIALIZED (
    SELECT range.low, range.high
    FROM octo_space AS space
    CROSS JOIN LATERAL octo_overlapping_ranges(space.namespaces, %(name)s) AS range
    WHERE space.id = %(space_id)s AND space.namespaces ? octo_namespace(%(name)s)
)
(
    SELECT DISTINCT 'lease' AS kind, lock.name, lock.owner, lock.acquired_at AS since
    FROM range
    JOIN octo_lock AS lock
        ON lock.space_id = %(space_id)s AND lock.lease_id IS NOT NULL AND lock.name <> %(name)s
        AND lock.name >= range.low COLLATE "C" AND lock.name < range.high COLLATE "C"
        AND octo_effective_expiry(lock.expires_at, lock.bound_session_id) > statement_timestamp()
    ORDER BY since
    LIMIT %(rows)s
)
UNION ALL
(
    SELECT DISTINCT 'waiter', waiter.name, waiter.owner, waiter.enqueued_at
    FROM range
    JOIN octo_queued_waiter AS waiter
        ON waiter.space_id = %(space_id)s AND waiter.name <> %(name)s
        AND waiter.name >= range.low COLLATE "C" AND waiter.name < range.high COLLATE "C"
    ORDER BY waiter.enqueued_at
    LIMIT %(rows)s
)
