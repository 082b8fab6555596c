-- Histograms of hold and wait times in each step of a window. Changes nothing.
SELECT
    date_bin(%(step)s, minute, '2000-01-01 00:00Z') AS at,
    measure,
    bucket,
    sum(count)::bigint AS count
FROM octo_stats_histogram
WHERE space_id = %(space_id)s
  AND minute >= date_bin(%(step)s, statement_timestamp(), '2000-01-01 00:00Z') - %(span)s + %(step)s
GROUP BY 1, 2, 3
