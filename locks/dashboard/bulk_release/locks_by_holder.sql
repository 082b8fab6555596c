-- What some owners hold, by name. Changes nothing. owners and holder_ids in pairs; rows: the most.
SELECT lock.name, lock.fencing_token, lock.owner
FROM octo_lock_state AS lock
JOIN unnest(%(owners)s::text[], %(holder_ids)s::text[]) AS wanted (owner, holder_id)
    ON wanted.owner = lock.owner AND wanted.holder_id = lock.holder_id
WHERE lock.space_id = %(space_id)s AND lock.lease_id IS NOT NULL
  AND lock.effective_expires_at > statement_timestamp()
ORDER BY lock.name
LIMIT %(rows)s
