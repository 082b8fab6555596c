-- Live leases of a space that overlap under a table of namespaces: each pair once, the first by name. Changes nothing.
SELECT DISTINCT lock.name, other.name AS other_name
FROM octo_lock AS lock
CROSS JOIN LATERAL octo_overlapping_ranges(%(namespaces)s::jsonb, lock.name) AS range
JOIN octo_lock AS other
    ON other.space_id = lock.space_id AND other.lease_id IS NOT NULL AND other.name <> lock.name
    AND other.name >= range.low COLLATE "C" AND other.name < range.high COLLATE "C"
    AND octo_effective_expiry(other.expires_at, other.bound_session_id) > statement_timestamp()
WHERE lock.space_id = %(space_id)s AND lock.lease_id IS NOT NULL AND lock.name < other.name
  AND %(namespaces)s::jsonb ? octo_namespace(lock.name)
  AND octo_effective_expiry(lock.expires_at, lock.bound_session_id) > statement_timestamp()
ORDER BY lock.name, other.name
LIMIT %(limit)s
