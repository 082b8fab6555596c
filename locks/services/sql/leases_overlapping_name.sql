-- Live leases of a space that overlap with a name under a table of namespaces. Changes nothing.
SELECT DISTINCT lock.name
FROM octo_overlapping_ranges(%(namespaces)s::jsonb, %(name)s) AS range
JOIN octo_lock AS lock
    ON lock.space_id = %(space_id)s AND lock.lease_id IS NOT NULL
    AND lock.name >= range.low COLLATE "C" AND lock.name < range.high COLLATE "C"
WHERE octo_effective_expiry(lock.expires_at, lock.bound_session_id) > statement_timestamp()
ORDER BY lock.name
LIMIT %(limit)s
