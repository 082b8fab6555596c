-- Spaces whose names and events are to be counted: those used since the last count, and others once an hour, because idle
-- names and old events are removed.
SELECT space_id FROM octo_space_usage
WHERE storage_counted_at IS NULL
   OR counted_at > storage_counted_at
   OR storage_counted_at < statement_timestamp() - interval '1 hour'
ORDER BY space_id
