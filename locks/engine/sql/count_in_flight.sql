-- How many statements of this database that began before a moment are still running. $1 the moment.
--
-- Each statement of the engine is a transaction of its own, so one that began later has seen everything committed before.
SELECT count(*)::int
FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
  AND state = 'active' AND xact_start <= $1::timestamptz
