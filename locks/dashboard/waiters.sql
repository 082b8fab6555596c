-- The first waiters in the queue of each of some locks, in their order. Changes nothing.
SELECT waiter.name, waiter.owner, waiter.enqueued_at
FROM unnest(%(names)s::text[]) AS lock (name)
CROSS JOIN LATERAL (
    SELECT name, owner, enqueued_at, queue_seq, id FROM octo_queued_waiter
    WHERE space_id = %(space_id)s AND octo_queued_waiter.name = lock.name
    ORDER BY queue_seq, id
    LIMIT %(each)s
) AS waiter
ORDER BY waiter.queue_seq, waiter.id
