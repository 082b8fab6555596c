-- Held and waited-for names of a namespace, by name: the owner and the end of the lease, and the number of waiters. Changes
-- nothing.
SELECT
    coalesce(held.name, queue.name) AS name, held.owner, held.expires_at, coalesce(queue.waiters, 0) AS waiters,
    statement_timestamp() AS now
FROM (
    SELECT lock.name, lock.owner, octo_effective_expiry(lock.expires_at, lock.bound_session_id) AS expires_at
    FROM octo_lock AS lock
    WHERE lock.space_id = %(space_id)s AND lock.lease_id IS NOT NULL
      AND lock.name >= %(low)s COLLATE "C" AND lock.name < %(high)s COLLATE "C"
      AND octo_effective_expiry(lock.expires_at, lock.bound_session_id) > statement_timestamp()
    ORDER BY lock.name
    LIMIT %(limit)s
) AS held
FULL JOIN (
    SELECT waiter.name, count(*) AS waiters
    FROM octo_queued_waiter AS waiter
    WHERE waiter.space_id = %(space_id)s AND waiter.name >= %(low)s COLLATE "C" AND waiter.name < %(high)s COLLATE "C"
    GROUP BY waiter.name
) AS queue ON queue.name = held.name
ORDER BY 1
