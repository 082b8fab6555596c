-- Removes waiters that nobody speaks for any more: their request has ended, or the server that held it.
--
-- SKIP LOCKED: whoever works on a waiter has the lock of its name, and must not wait for us while we wait for somebody
-- else. Whatever is left of it is found the next time.
WITH silent AS (
    DELETE FROM octo_server_process WHERE last_heartbeat_at < statement_timestamp() - interval '1 minute'
),
unspoken_for AS MATERIALIZED (
    SELECT waiter.id
    FROM octo_waiter AS waiter
    WHERE waiter.deadline_at < statement_timestamp() - interval '10 seconds'
       OR EXISTS (
           SELECT FROM octo_server_process AS server
           WHERE server.id = waiter.server_id AND server.last_heartbeat_at < statement_timestamp() - interval '10 seconds')
    FOR UPDATE OF waiter SKIP LOCKED
)
DELETE FROM octo_waiter AS waiter USING unspoken_for WHERE waiter.id = unspoken_for.id
