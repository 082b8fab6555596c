-- The names refused most and waited for most in a window, with their present owner and queue. Changes nothing.
WITH name AS MATERIALIZED (
    SELECT
        name,
        sum(refused)::bigint AS refused,
        sum(waited)::bigint AS waited,
        sum(waited_ms)::bigint AS waited_ms
    FROM octo_stats_contention
    WHERE space_id = %(space_id)s
      AND minute >= date_bin(%(step)s, statement_timestamp(), '2000-01-01 00:00Z') - %(span)s + %(step)s
    GROUP BY name
),
listed AS (
    (SELECT * FROM name WHERE refused > 0 ORDER BY refused DESC, name LIMIT %(rows)s)
    UNION
    (SELECT * FROM name WHERE waited > 0 ORDER BY waited DESC, name LIMIT %(rows)s)
)
SELECT
    listed.name,
    listed.refused,
    listed.waited,
    listed.waited_ms,
    CASE WHEN lock.state IN ('held', 'expiring') THEN lock.owner END AS owner,
    coalesce(lock.waiters, 0) AS queue_length
FROM listed
LEFT JOIN octo_lock_row_v2 AS lock ON lock.space_id = %(space_id)s AND lock.name = listed.name
