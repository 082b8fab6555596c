-- What an owner waits for, the longest wait first: the place in the queue, and the present holder. Changes nothing.
SELECT
    waiter.name, waiter.enqueued_at, lock.owner AS holder,
    (
        SELECT count(*) FROM octo_queued_waiter AS earlier
        WHERE earlier.space_id = waiter.space_id AND earlier.name = waiter.name
          AND (earlier.queue_seq, earlier.id) <= (waiter.queue_seq, waiter.id)
    ) AS position,
    statement_timestamp() AS now
FROM octo_queued_waiter AS waiter
LEFT JOIN octo_lock AS lock ON lock.space_id = waiter.space_id AND lock.name = waiter.name
WHERE waiter.space_id = %(space_id)s AND waiter.owner = %(owner)s
ORDER BY waiter.enqueued_at, waiter.id
LIMIT %(rows)s
