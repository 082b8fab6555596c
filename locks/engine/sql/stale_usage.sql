-- Spaces whose last count of live locks is old, so that an idle space does not seem full of expired leases.
SELECT space_id FROM octo_space_usage
WHERE live_locks > 0 AND counted_at < statement_timestamp() - interval '2 seconds'
ORDER BY space_id
