-- Ends backends that did not answer on this program's earlier connections for the same purpose. Whatever they were asked for,
-- they do not begin it any more.
--
-- $1 their process ids. Whether they are still ours shows in their name: a number may be another's by now.
SELECT pg_terminate_backend(pid)
FROM pg_stat_activity
WHERE pid = ANY ($1::int[]) AND pid <> pg_backend_pid() AND datname = current_database()
  AND application_name = current_setting('application_name')
