-- A page of the active locks of a space. Changes nothing.
--
-- space_id; prefix, owner and search ('' for all); sort; rows; skipped.
-- By severity, the locks that are known to be stuck come first, in the order of Stuck.
WITH page AS (
    SELECT id, row_number() OVER () AS position
    FROM (
        SELECT
            found.id,
            CASE WHEN %(sort)s <> 'severity' OR stuck.position IS NOT NULL THEN 0 ELSE severity END AS rank,
            CASE %(sort)s
                WHEN 'severity' THEN CASE WHEN stuck.position IS NOT NULL THEN to_timestamp(stuck.position)
                                          WHEN severity < 4 THEN ends_at ELSE acquired_at END
                WHEN 'left' THEN ends_at
                WHEN 'oldest' THEN acquired_at
                WHEN 'newest' THEN to_timestamp(-date_part('epoch', acquired_at))
            END AS moment
        FROM octo_find_locks(%(space_id)s, %(prefix)s, %(owner)s, %(search)s) AS found
        LEFT JOIN octo_known_stuck_lock AS stuck ON %(sort)s = 'severity' AND stuck.space_id = %(space_id)s
            AND stuck.lock_id = found.id AND stuck.fencing_token = found.fencing_token
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
