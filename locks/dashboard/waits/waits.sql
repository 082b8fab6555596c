-- The waiters of a space and the holders they wait for, the longest wait first. Changes nothing.
--
-- space_id; rows. The holder id, which stands for token and session, tells two processes with the same owner apart.
SELECT
    waiter.name, waiter.owner, octo_holder_id(token.public_id, waiter.session_id) AS holder_id, waiter.enqueued_at,
    lock.owner AS held_by, lock.holder_id AS held_by_id, lock.acquired_at AS held_since,
    statement_timestamp() AS now
FROM octo_queued_waiter AS waiter
JOIN octo_token AS token ON token.id = waiter.token_id
LEFT JOIN octo_lock AS lock ON lock.space_id = waiter.space_id AND lock.name = waiter.name
WHERE waiter.space_id = %(space_id)s
ORDER BY waiter.enqueued_at, waiter.id
LIMIT %(rows)s
