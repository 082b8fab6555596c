-- A page of the active locks of a space. Changes nothing.
--
-- space_id; prefix, owner, search and state ('' for all); sort; rows; skipped.
-- By severity, the locks that are known to be stuck come first, in the order of Stuck.
-- The names with waiters, for the sort by them.
WITH queued AS NOT MATERIALIZED (
    SELECT name FROM octo_queued_waiter WHERE space_id = %(space_id)s
),
page AS (
    SELECT id, row_number() OVER () AS position
    FROM (
        SELECT
            found.id,
            CASE WHEN %(sort)s <> 'severity' OR stuck.position IS NOT NULL THEN 0 ELSE severity END AS rank,
            CASE
                WHEN %(sort)s <> 'severity' THEN octo_sort_moment(
                    %(sort)s, ends_at, acquired_at, last_heartbeat_at,
                    CASE WHEN %(sort)s = 'queue' AND name IN (SELECT name FROM queued) THEN (
                        SELECT count(*) FROM octo_queued_waiter AS waiter
                        WHERE waiter.space_id = %(space_id)s AND waiter.name = found.name) END)
                WHEN stuck.position IS NOT NULL THEN to_timestamp(stuck.position)
                WHEN severity < 4 THEN ends_at
                ELSE acquired_at
            END AS moment
        FROM octo_find_locks_v2(%(space_id)s, %(prefix)s, %(owner)s, %(search)s, %(state)s) AS found
        LEFT JOIN octo_known_stuck_lock_v2 AS stuck ON %(sort)s = 'severity' AND stuck.space_id = %(space_id)s
            AND stuck.lock_id = found.id AND stuck.fencing_token = found.fencing_token
        -- By end among locks that need attention, by start among the others: that order does not change with renewals,
        -- so rows stay in place.
        ORDER BY rank, moment, CASE WHEN %(sort)s = 'owner' THEN owner END, name
        LIMIT %(rows)s OFFSET %(skipped)s
    ) AS sorted
)
SELECT lock.*
FROM page
JOIN octo_lock_row_v2 AS lock ON lock.id = page.id
ORDER BY page.position
