-- The effect a prepared release would have now, by owner, those with the most locks first. Changes nothing.
--
-- batch_id; space_id. `releasable`: still held under the fencing token that was shown; the others would be skipped.
-- `reserved`: held by people, without a token, who renew nothing. The first row has the totals.
WITH item AS MATERIALIZED (
    SELECT
        item.owner,
        lock.id IS NOT NULL AS is_releasable,
        lock.id IS NOT NULL AND lock.token_id IS NULL AS is_reserved,
        lock.is_heartbeating AND lock.token_id IS NOT NULL AS is_heartbeating,
        CASE WHEN lock.token_id IS NOT NULL THEN lock.last_heartbeat_at END AS last_heartbeat_at
    FROM octo_bulk_release_item AS item
    LEFT JOIN octo_lock_state_v2 AS lock ON lock.space_id = %(space_id)s AND lock.name = item.lock_name
        AND lock.fencing_token = item.fencing_token AND lock.lease_id IS NOT NULL
        AND lock.effective_expires_at > statement_timestamp()
    WHERE item.batch_id = %(batch_id)s
)
SELECT
    CASE WHEN grouping(owner) = 0 THEN owner END AS owner,
    count(*) AS locks,
    count(*) FILTER (WHERE is_releasable) AS releasable,
    count(*) FILTER (WHERE is_heartbeating) AS heartbeating,
    count(*) FILTER (WHERE is_reserved) AS reserved,
    max(last_heartbeat_at) AS last_heartbeat_at,
    count(DISTINCT owner) FILTER (WHERE is_releasable) AS owners,
    statement_timestamp() AS now
FROM item
GROUP BY GROUPING SETS ((), (owner))
ORDER BY grouping(owner) DESC, count(*) DESC, owner
LIMIT 51
