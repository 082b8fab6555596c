-- The locks of a prepared release as they are now, in their order. Changes nothing.
--
-- batch_id, space_id, after: the position to go on from, rows.
SELECT
    row.position, row.lock_name, row.fencing_token, row.owner,
    lock.fencing_token = row.fencing_token AS still,
    CASE WHEN lock.fencing_token <> row.fencing_token THEN lock.owner END AS owner_now,
    lock.acquired_at, lock.last_heartbeat_at,
    (
        SELECT count(*) FROM octo_waiter
        WHERE octo_waiter.space_id = %(space_id)s AND octo_waiter.name = row.lock_name
          AND octo_waiter.handed_lease_id IS NULL AND octo_waiter.deadline_at > statement_timestamp()
    ) AS waiters,
    statement_timestamp() AS now
FROM octo_bulk_release_item AS row
LEFT JOIN octo_lock_state AS lock ON lock.space_id = %(space_id)s AND lock.name = row.lock_name
    AND lock.lease_id IS NOT NULL AND lock.effective_expires_at > statement_timestamp()
WHERE row.batch_id = %(batch_id)s AND row.position > %(after)s
ORDER BY row.position
LIMIT %(rows)s
