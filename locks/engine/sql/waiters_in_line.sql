-- Who stands in line for a name, in order. Changes nothing. $1 space · $2 name · $3 the most
SELECT waiter.owner, waiter.metadata, waiter.waiting_since
FROM octo_waiter AS waiter
WHERE waiter.space_id = $1 AND waiter.name = $2 AND waiter.lease_id IS NULL
ORDER BY waiter.arrival, waiter.id
LIMIT $3::int
