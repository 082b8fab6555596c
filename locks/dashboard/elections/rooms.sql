SELECT
    name AS room, owner AS leader, metadata, fencing_token AS term, acquired_at, expires_at,
    statement_timestamp() AS now
FROM octo_lock
WHERE space_id = %(space_id)s AND lease_id IS NOT NULL AND expires_at > statement_timestamp()
ORDER BY acquired_at, name
LIMIT %(limit)s
