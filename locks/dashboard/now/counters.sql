-- The counters of some spaces, a row for each. Changes nothing. Counted from the rows themselves, so they are never behind.
SELECT
    space.id AS space_id,
    held.held,
    held.expiring,
    held.overdue,
    held.cooldown + (SELECT count(*) FROM octo_lock
     WHERE space_id = space.id AND lease_id IS NULL AND available_at > statement_timestamp()) AS cooldown,
    (SELECT count(*) FROM octo_queued_waiter WHERE space_id = space.id) AS waiting,
    statement_timestamp() AS now
FROM unnest(%(space_ids)s::bigint[]) AS space (id)
CROSS JOIN LATERAL (
    SELECT
        count(*) FILTER (WHERE effective_expires_at > statement_timestamp()) AS held,
        count(*) FILTER (WHERE severity = 2) AS expiring,
        count(*) FILTER (WHERE severity = 1) AS overdue,
        count(*) FILTER (WHERE severity = 3) AS cooldown
    FROM octo_lock_state_v2
    WHERE space_id = space.id AND lease_id IS NOT NULL
) AS held
