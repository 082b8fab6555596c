-- Ends backends that did not answer on earlier connections of this process for the same purpose, so that the statements
-- that they were sent do not run any more.
--
-- $1 their process ids. The application name shows that they are still ours: a process id may have been reused.
SELECT pg_terminate_backend(pid)
FROM pg_stat_activity
WHERE pid = ANY ($1::int[]) AND pid <> pg_backend_pid() AND datname = current_database()
  AND application_name = current_setting('application_name')
