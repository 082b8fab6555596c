-- How many locks a filter finds, exact up to ten thousand. Changes nothing. Parameters as in lock_list.sql.
SELECT count(*) AS number
FROM (
    SELECT FROM octo_find_locks_v2(%(space_id)s, %(prefix)s, %(owner)s, %(search)s, %(state)s) LIMIT 10001
) AS matching
