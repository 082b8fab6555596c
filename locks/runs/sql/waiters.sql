-- The requests of a run's actors that wait for a lock, in the order of each queue.
SELECT waiter.name, actor.name AS actor, actor.layer_id, waiter.enqueued_at, waiter.deadline_at
FROM octo_run_actor AS actor
JOIN octo_waiter AS waiter ON waiter.session_id = actor.session_id
WHERE actor.run_id = %(run_id)s AND waiter.handed_lease_id IS NULL
ORDER BY waiter.name, waiter.queue_seq, waiter.id
