-- The locks of a prepared release in their present state and in the release's order. Changes nothing.
--
-- batch_id; space_id; after: the position after which the page begins; rows.
SELECT
    item.position, item.lock_name, item.fencing_token, item.owner,
    lock.fencing_token = item.fencing_token AS is_current,
    CASE WHEN lock.fencing_token <> item.fencing_token THEN lock.owner END AS current_owner,
    lock.acquired_at, CASE WHEN NOT lock.is_reserved THEN lock.last_heartbeat_at END AS last_heartbeat_at,
    coalesce(lock.waiters, 0) AS waiters,
    statement_timestamp() AS now
FROM octo_bulk_release_item AS item
LEFT JOIN octo_lock_row_v2 AS lock ON lock.space_id = %(space_id)s AND lock.name = item.lock_name AND lock.state IN ('held', 'expiring')
WHERE item.batch_id = %(batch_id)s AND item.position > %(after)s
ORDER BY item.position
LIMIT %(rows)s
