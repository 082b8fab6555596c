-- The first locks of each of some owners, those that end first before the others. Changes nothing.
--
-- space_id, owners and holder_ids (in pairs), each: the most locks of one.
SELECT
    id, name, fencing_token, owner, holder_id, metadata, ttl_seconds, acquired_at, renewed_at, expires_at,
    expires_at + lock_delay_seconds * interval '1 second' AS available_at, renewals, in_session, state, 0 AS waiters,
    statement_timestamp() AS now
FROM (
    SELECT
        lock.*, lock.session_id IS NOT NULL AS in_session,
        CASE
            WHEN lives_until > statement_timestamp() + interval '30 seconds' THEN 'held'
            WHEN lives_until > statement_timestamp() + lock.ttl_seconds * interval '1 second' / 3 THEN 'held'
            WHEN lives_until > statement_timestamp()
                THEN CASE WHEN lives_until < lock.expires_at THEN 'held' ELSE 'expiring' END
            WHEN lives_until + lock.lock_delay_seconds * interval '1 second' > statement_timestamp() THEN 'delayed'
            ELSE 'overdue'
        END AS state,
        row_number() OVER (PARTITION BY lock.owner, lock.holder_id ORDER BY lock.expires_at, lock.name) AS place
    FROM octo_lock AS lock
    JOIN unnest(%(owners)s::text[], %(holder_ids)s::text[]) AS wanted (owner, holder_id)
        ON wanted.owner = lock.owner AND wanted.holder_id = lock.holder_id
    CROSS JOIN LATERAL octo_lives_until(lock.expires_at, lock.tied_to) AS lives_until
    WHERE lock.space_id = %(space_id)s AND lock.lease_id IS NOT NULL
) AS numbered
WHERE place <= %(each)s
ORDER BY owner, holder_id, place
