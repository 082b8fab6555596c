-- Removes waiters that nobody speaks for any more: their request has ended, or the server that held it.
WITH silent AS (
    DELETE FROM octo_server WHERE seen_at < statement_timestamp() - interval '1 minute'
)
DELETE FROM octo_waiter AS waiter
WHERE waiter.gives_up_at < statement_timestamp() - interval '10 seconds'
   OR EXISTS (
       SELECT FROM octo_server AS server
       WHERE server.id = waiter.server_id AND server.seen_at < statement_timestamp() - interval '10 seconds')
