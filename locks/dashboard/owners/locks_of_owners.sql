-- The first locks of each of some owners, those that end first before the others. Changes nothing.
--
-- space_id, owners and holder_ids (in pairs), each: the most locks of one.
SELECT
    id, name, fencing_token, owner, holder_id, metadata, effective_ttl, acquired_at, last_heartbeat_at, effective_expires_at,
    effective_expires_at + lock_delay_seconds * interval '1 second' AS available_at, renewals, bound_session_id IS NOT NULL AS in_session,
    octo_severity_name(severity) AS state, 0 AS waiters,
    statement_timestamp() AS now
FROM (
    SELECT
        lock.*,
        row_number() OVER (PARTITION BY lock.owner, lock.holder_id ORDER BY lock.effective_expires_at, lock.name) AS place
    FROM octo_lock_state AS lock
    JOIN unnest(%(owners)s::text[], %(holder_ids)s::text[]) AS wanted (owner, holder_id)
        ON wanted.owner = lock.owner AND wanted.holder_id = lock.holder_id
    WHERE lock.space_id = %(space_id)s AND lock.lease_id IS NOT NULL
) AS numbered
WHERE place <= %(each)s
ORDER BY owner, holder_id, place
