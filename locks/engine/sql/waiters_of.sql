-- The waiters of a server process, to find those that have lost their entry. $1 is the server process.
SELECT id FROM octo_waiter WHERE server_id = $1::uuid
