-- Retire: a server that stops takes its requests out of every line. $1 is the server.
WITH gone AS (
    DELETE FROM octo_waiter WHERE server_id = $1::uuid
)
DELETE FROM octo_server WHERE id = $1::uuid
