-- What a prepared release would do now, by owner, those with the most locks first. Changes nothing.
--
-- batch_id, space_id. `still`: held under the token that was shown; the others would be skipped. `beating` as in
-- owners.sql. The first row has the sums of all.
WITH seen AS MATERIALIZED (
    SELECT
        row.owner,
        lock.id IS NOT NULL AS still,
        lock.id IS NOT NULL AND (
            session.last_keepalive_at + session.ttl_seconds * interval '0.6 seconds' > statement_timestamp()
            OR statement_timestamp() - lock.renewed_at <= interval '2 seconds' + 1.5 * CASE
                WHEN lock.renewals > 0 THEN (lock.renewed_at - lock.acquired_at) / lock.renewals
                ELSE least(lock.effective_ttl * interval '0.5 seconds', interval '1 minute')
            END
        ) AS beating,
        lock.last_heartbeat_at
    FROM octo_bulk_release_item AS row
    LEFT JOIN octo_lock_state AS lock ON lock.space_id = %(space_id)s AND lock.name = row.lock_name
        AND lock.fencing_token = row.fencing_token AND lock.lease_id IS NOT NULL
        AND lock.effective_expires_at > statement_timestamp()
    LEFT JOIN octo_session AS session ON session.id = lock.session_id AND session.ended_at IS NULL
    WHERE row.batch_id = %(batch_id)s
)
SELECT
    CASE WHEN grouping(owner) = 0 THEN owner END AS owner,
    count(*) AS locks,
    count(*) FILTER (WHERE still) AS still,
    count(*) FILTER (WHERE beating) AS beating,
    max(last_heartbeat_at) AS last_heartbeat_at,
    count(DISTINCT owner) FILTER (WHERE still) AS owners,
    statement_timestamp() AS now
FROM seen
GROUP BY GROUPING SETS ((), (owner))
ORDER BY grouping(owner) DESC, count(*) DESC, owner
LIMIT 51
