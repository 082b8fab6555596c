-- The held locks that match a filter, by name. Changes nothing. Parameters as in now/lock_list.sql; rows: the maximum.
SELECT name, fencing_token, owner
FROM octo_find_locks_v2(%(space_id)s, %(prefix)s, %(owner)s, %(search)s, %(state)s)
WHERE severity IN (2, 4)
ORDER BY name
LIMIT %(rows)s
