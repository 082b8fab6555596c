-- Retire: a server that stops, and whose requests have left every line, says that it is gone. $1 is the server.
DELETE FROM octo_server_process WHERE id = $1::uuid
