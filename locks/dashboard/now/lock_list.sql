-- A page of the active locks of a space. Changes nothing.
--
-- space_id; prefix, owner and search ('' for all); sort; rows; skipped.
WITH page AS (
    SELECT id, row_number() OVER () AS position
    FROM (
        SELECT
            id,
            CASE WHEN %(sort)s = 'severity' THEN severity ELSE 0 END AS rank,
            CASE %(sort)s
                WHEN 'severity' THEN CASE WHEN severity < 4 THEN ends_at ELSE acquired_at END
                WHEN 'left' THEN ends_at
                WHEN 'oldest' THEN acquired_at
                WHEN 'newest' THEN to_timestamp(-date_part('epoch', acquired_at))
            END AS moment
        FROM octo_find_locks(%(space_id)s, %(prefix)s, %(owner)s, %(search)s)
        -- By end among locks that need attention, by start among the others: that order does not change with renewals,
        -- so rows stay in place.
        ORDER BY rank, moment, name
        LIMIT %(rows)s OFFSET %(skipped)s
    ) AS sorted
)
SELECT lock.*
FROM page
JOIN octo_lock_row AS lock ON lock.id = page.id
ORDER BY page.position
