-- The names that were refused most and waited for most in a window, with who has them now. Changes nothing.
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
    CASE WHEN lock.effective_expires_at > statement_timestamp() THEN lock.owner END AS owner,
    (
        SELECT count(*) FROM octo_waiter AS waiter
        WHERE waiter.space_id = %(space_id)s AND waiter.name = listed.name
          AND waiter.handed_lease_id IS NULL AND waiter.deadline_at > statement_timestamp()
    ) AS waiting
FROM listed
LEFT JOIN octo_lock_state AS lock ON lock.space_id = %(space_id)s AND lock.name = listed.name AND lock.lease_id IS NOT NULL
