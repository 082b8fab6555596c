-- A page of the active locks of a space in groups: by owner, or by the part of the name up to the first slash. Changes
-- nothing.
--
-- Parameters as in lock_list.sql, and group_by. Groups that need attention come first, then the largest; within a group
-- the order is that of lock_list.sql. `label`, `group_size` and `group_alerts` are those of the whole group.
WITH matching AS NOT MATERIALIZED (
    SELECT
        found.id, name, acquired_at, ends_at,
        CASE WHEN stuck.position IS NOT NULL THEN 0 ELSE severity END AS severity,
        CASE WHEN stuck.position IS NOT NULL THEN to_timestamp(stuck.position)
             WHEN severity < 4 THEN ends_at ELSE acquired_at END AS severity_moment,
        CASE %(group_by)s WHEN 'owner' THEN coalesce(owner, '') WHEN 'prefix' THEN left(name, strpos(name, '/')) END AS label
    FROM octo_find_locks(%(space_id)s, %(prefix)s, %(owner)s, %(search)s) AS found
    LEFT JOIN octo_known_stuck_lock AS stuck ON stuck.space_id = %(space_id)s
        AND stuck.lock_id = found.id AND stuck.fencing_token = found.fencing_token
),
lock_group AS (
    SELECT label, count(*) AS group_size, count(*) FILTER (WHERE severity < 3) AS group_alerts, min(severity) AS worst
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
            sum(group_size) OVER (
                ORDER BY
                    CASE WHEN %(sort)s = 'severity' THEN worst END,
                    CASE WHEN %(sort)s = 'severity' THEN group_size END DESC,
                    label
            )::bigint AS up_to
        FROM lock_group
    ) AS running_total
    WHERE up_to > %(skipped)s AND up_to - group_size < %(skipped)s + %(rows)s
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
            CASE %(sort)s
                WHEN 'severity' THEN severity_moment
                WHEN 'left' THEN ends_at
                WHEN 'oldest' THEN acquired_at
                WHEN 'newest' THEN to_timestamp(-date_part('epoch', acquired_at))
            END AS moment
        FROM matching
        WHERE (SELECT max(groups) FROM shown) = 1 OR (label IN (SELECT label FROM shown)) IS TRUE
        ORDER BY rank, moment, name
        LIMIT %(rows)s OFFSET %(skipped)s - (SELECT min(up_to - group_size) FROM shown)
    ) AS sorted
)
SELECT lock.*, shown.label, shown.group_size, shown.group_alerts
FROM page
JOIN shown USING (nth)
JOIN octo_lock_row AS lock ON lock.id = page.id
ORDER BY page.position
