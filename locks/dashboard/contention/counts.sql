-- Claims granted, refused and queued in each step of a window. Changes nothing.
--
-- Every step has a row, also if nothing happened. step and span are intervals; steps begin at round times.
WITH step AS (
    SELECT generate_series(
        date_bin(%(step)s, statement_timestamp(), '2000-01-01 00:00Z') - %(span)s + %(step)s,
        statement_timestamp(), %(step)s
    ) AS at
)
SELECT
    step.at,
    coalesce(sum(minute.acquired), 0)::bigint AS granted,
    coalesce(sum(minute.refused), 0)::bigint AS refused,
    coalesce(sum(minute.waited), 0)::bigint AS waited
FROM step
LEFT JOIN octo_stats_minute AS minute
    ON minute.space_id = %(space_id)s AND minute.minute >= step.at AND minute.minute < step.at + %(step)s
GROUP BY step.at
ORDER BY step.at
