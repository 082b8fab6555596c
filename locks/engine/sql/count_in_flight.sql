-- How many statements of this database were under way at a moment and still are. Changes nothing.
--
-- $1 the moment. Each statement of the engine is a transaction of its own, so one that began later has seen all that was
-- committed until then.
SELECT count(*)::int
FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
  AND state = 'active' AND xact_start <= $1::timestamptz
