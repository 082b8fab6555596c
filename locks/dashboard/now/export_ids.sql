-- The locks that a filter finds, by name, for an export. Changes nothing. Parameters as in lock_list.sql, and rows.
SELECT id FROM octo_find_locks_v2(%(space_id)s, %(prefix)s, %(owner)s, %(search)s, %(state)s) ORDER BY name LIMIT %(rows)s
