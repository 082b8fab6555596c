-- Heartbeat of a server process at which requests wait. One row: how many wait there, and how many were handed a lease.
--
-- $1 is the server process.
WITH heartbeat AS (
    INSERT INTO octo_server_process (id, last_heartbeat_at) VALUES ($1::uuid, clock_timestamp())
    ON CONFLICT (id) DO UPDATE SET last_heartbeat_at = clock_timestamp()
)
SELECT
    count(*)::int AS waiting,
    (count(*) FILTER (WHERE handed_lease_id IS NOT NULL))::int AS handed
FROM octo_waiter
WHERE server_id = $1::uuid
