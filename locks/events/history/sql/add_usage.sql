-- Adds what the servers have counted in memory to the statistics. $1 is a JSON array of UsageCounts.
--
-- In the order of the keys, so that servers that write at the same time cannot deadlock.
WITH usage AS MATERIALIZED (
    SELECT * FROM json_to_recordset($1::json) AS usage (
        space_id bigint, minute timestamptz, renewed bigint, refused bigint, waited bigint, waits json, names json,
        waited_names json
    )
),
added_counts AS (
    INSERT INTO octo_stats_minute AS total (space_id, minute, renewed, refused, waited)
    SELECT space_id, minute, renewed, refused, waited FROM usage ORDER BY space_id, minute
    ON CONFLICT (space_id, minute) DO UPDATE SET
        renewed = total.renewed + excluded.renewed, refused = total.refused + excluded.refused,
        waited = total.waited + excluded.waited
),
added_waits AS (
    INSERT INTO octo_stats_histogram AS total (space_id, minute, measure, bucket, count)
    SELECT space_id, minute, 'wait', wait.key::smallint, wait.value::bigint
    FROM usage CROSS JOIN json_each_text(waits) AS wait
    ORDER BY 1, 2, 4
    ON CONFLICT (space_id, minute, measure, bucket) DO UPDATE SET count = total.count + excluded.count
)
INSERT INTO octo_stats_contention AS total (space_id, minute, name, refused, waited, waited_ms)
SELECT space_id, minute, name, sum(refused), sum(waited), sum(waited_ms)
FROM (
    SELECT space_id, minute, name.key, name.value::bigint, 0, 0
    FROM usage CROSS JOIN json_each_text(names) AS name
    UNION ALL
    SELECT space_id, minute, name.key, 0, (name.value ->> 0)::bigint, (name.value ->> 1)::bigint
    FROM usage CROSS JOIN json_each(waited_names) AS name
) AS by_name (space_id, minute, name, refused, waited, waited_ms)
GROUP BY space_id, minute, name
ORDER BY space_id, minute, name COLLATE "C"
ON CONFLICT (space_id, minute, name) DO UPDATE SET
    refused = total.refused + excluded.refused, waited = total.waited + excluded.waited,
    waited_ms = total.waited_ms + excluded.waited_ms
