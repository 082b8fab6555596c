-- Deletes waiters whose request, or whose server process, has ended without dequeuing them.
--
-- SKIP LOCKED: a statement that changes a waiter has the lock of its name, and must not wait for this one while this one
-- waits for another. What is skipped is found the next time.
WITH dead_server AS (
    DELETE FROM octo_server_process WHERE last_heartbeat_at < statement_timestamp() - interval '1 minute'
),
abandoned AS MATERIALIZED (
    SELECT waiter.id
    FROM octo_waiter AS waiter
    WHERE waiter.deadline_at < statement_timestamp() - interval '10 seconds'
       OR EXISTS (
           SELECT FROM octo_server_process AS server
           WHERE server.id = waiter.server_id
             AND server.last_heartbeat_at < statement_timestamp() - interval '10 seconds')
    FOR UPDATE OF waiter SKIP LOCKED
)
DELETE FROM octo_waiter AS waiter USING abandoned WHERE waiter.id = abandoned.id
