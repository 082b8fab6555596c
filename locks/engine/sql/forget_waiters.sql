-- Removes waiters that nobody speaks for any more: their request has ended, or the server that held it.
DELETE FROM octo_waiter
WHERE gives_up_at < statement_timestamp() - interval '10 seconds'
