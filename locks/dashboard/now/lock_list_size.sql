-- How many locks the board's filter finds, exact up to ten thousand. Changes nothing. Parameters as in lock_list.sql.
SELECT count(*) AS number
FROM (
    SELECT FROM octo_lock
    WHERE space_id = %(space_id)s
      AND (lease_id IS NOT NULL OR available_at > statement_timestamp())
      AND starts_with(name, %(prefix)s)
      AND (%(owner)s = '' OR owner = %(owner)s)
      AND (
        %(search)s = ''
        OR CASE WHEN %(plain)s
            THEN lower((name || E'\n' || coalesce(owner, '') || E'\n' || coalesce(metadata, '')) COLLATE "C")
                LIKE lower(%(pattern)s COLLATE "C")
            ELSE name ILIKE %(pattern)s OR owner ILIKE %(pattern)s OR metadata ILIKE %(pattern)s
        END
      )
    LIMIT 10001
) AS found
