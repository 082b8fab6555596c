-- The held locks of some owners, by name. Changes nothing. owners and holder_ids in pairs; rows: the maximum.
SELECT lock.name, lock.fencing_token, lock.owner
FROM octo_lock_state_v2 AS lock
JOIN unnest(%(owners)s::text[], %(holder_ids)s::text[]) AS requested (owner, holder_id)
    ON requested.owner = lock.owner AND requested.holder_id = lock.holder_id
WHERE lock.space_id = %(space_id)s AND lock.severity IN (2, 4)
ORDER BY lock.name
LIMIT %(rows)s
