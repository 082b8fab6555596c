-- Counts the names of a space and the events of its history. $1 is its id. Beyond the limit the exact number of names does
-- not matter.
UPDATE octo_space_usage AS usage SET
    names = (
        SELECT count(*)
        FROM (SELECT FROM octo_lock AS lock WHERE lock.space_id = usage.space_id LIMIT octo_space.max_names) AS lock
    ),
    events = (SELECT coalesce(sum(month.events), 0) FROM octo_stats_month AS month WHERE month.space_id = usage.space_id),
    storage_counted_at = clock_timestamp()
FROM octo_space
WHERE octo_space.id = usage.space_id AND usage.space_id = $1::bigint
