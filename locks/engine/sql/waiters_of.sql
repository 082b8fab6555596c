-- The waiters of a server, to find out whose place is gone. $1 is the server.
SELECT id FROM octo_waiter WHERE server_id = $1::uuid
