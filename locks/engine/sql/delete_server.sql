-- Removes a server process that stops, after its requests have left every queue. $1 is the server process.
DELETE FROM octo_server_process WHERE id = $1::uuid
