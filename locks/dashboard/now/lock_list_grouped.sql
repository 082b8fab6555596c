-- A page of the active locks of a space in groups: by owner, or by the part of the name up to the first slash. Changes
-- nothing.
--
-- Parameters as in lock_list.sql, and group_by. Groups that need attention come first, then the largest; within a group
-- the order is that of lock_list.sql. `label`, `group_size` and `group_alerts` are those of the whole group. Of a group whose
-- label is in `closed`, only one lock is listed, for its heading.
WITH queued AS NOT MATERIALIZED (
    SELECT name FROM octo_queued_waiter WHERE space_id = %(space_id)s
),
matching AS NOT MATERIALIZED (
    SELECT
        found.id, found.name, owner,
        CASE WHEN stuck.position IS NOT NULL THEN 0 ELSE severity END AS severity,
        CASE WHEN stuck.position IS NOT NULL THEN to_timestamp(stuck.position)
             WHEN severity < 4 THEN ends_at ELSE acquired_at END AS severity_moment,
        octo_sort_moment(
            %(sort)s, ends_at, acquired_at, last_heartbeat_at,
            CASE WHEN %(sort)s = 'queue' AND found.name IN (SELECT name FROM queued) THEN (
                SELECT count(*) FROM octo_queued_waiter AS waiter
                WHERE waiter.space_id = %(space_id)s AND waiter.name = found.name) END) AS sort_moment,
        CASE %(group_by)s WHEN 'owner' THEN coalesce(owner, '')
                          WHEN 'prefix' THEN left(found.name, strpos(found.name, '/')) END AS label
    FROM octo_find_locks_v2(%(space_id)s, %(prefix)s, %(owner)s, %(search)s, %(state)s) AS found
    LEFT JOIN octo_known_stuck_lock_v2 AS stuck ON stuck.space_id = %(space_id)s
        AND stuck.lock_id = found.id AND stuck.fencing_token = found.fencing_token
),
lock_group AS (
    SELECT
        label, count(*) AS group_size, count(*) FILTER (WHERE severity < 3) AS group_alerts, min(severity) AS worst,
        min(id) AS first_id, CASE WHEN label = ANY (%(closed)s::text[]) THEN 1 ELSE count(*) END AS shown_size
    FROM matching
    GROUP BY label
),
-- Only the locks of groups that reach into the page are sorted.
shown AS MATERIALIZED (
    SELECT *, row_number() OVER (ORDER BY up_to) AS nth
    FROM (
        SELECT
            *,
            count(*) OVER () AS groups,
            sum(shown_size) OVER (
                ORDER BY
                    CASE WHEN %(sort)s = 'severity' THEN worst END,
                    CASE WHEN %(sort)s = 'severity' THEN group_size END DESC,
                    label
            )::bigint AS up_to
        FROM lock_group
    ) AS running_total
    WHERE up_to > %(skipped)s AND up_to - shown_size < %(skipped)s + %(rows)s
),
-- Not a join, which may scan all locks once per group and sorts wide rows. If one group fills the page, no label has to be
-- compared. The sort keys come first in the row, where they are cheap to read.
page AS (
    SELECT id, rank / 8 AS nth, row_number() OVER () AS position
    FROM (
        SELECT
            id,
            8 * CASE WHEN (SELECT count(*) FROM shown) = 1 THEN 1
                     ELSE array_position(ARRAY(SELECT label FROM shown ORDER BY nth), label) END
                + CASE WHEN %(sort)s = 'severity' THEN severity ELSE 0 END AS rank,
            CASE WHEN %(sort)s = 'severity' THEN severity_moment ELSE sort_moment END AS moment
        FROM matching
        WHERE ((SELECT max(groups) FROM shown) = 1 AND cardinality(%(closed)s::text[]) = 0)
           OR (label IN (SELECT label FROM shown WHERE shown_size = group_size)) IS TRUE
           OR id IN (SELECT first_id FROM shown WHERE shown_size < group_size)
        ORDER BY rank, moment, CASE WHEN %(sort)s = 'owner' THEN owner END, name
        LIMIT %(rows)s OFFSET %(skipped)s - (SELECT min(up_to - shown_size) FROM shown)
    ) AS sorted
)
SELECT lock.*, shown.label, shown.group_size, shown.group_alerts
FROM page
JOIN shown USING (nth)
JOIN octo_lock_row_v2 AS lock ON lock.id = page.id
ORDER BY page.position
