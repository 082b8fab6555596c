-- Grants and expiries in each of the last sixty minutes, oldest first. Changes nothing.
--
-- Reads at most the latest hundred thousand events: in a busier hour the earlier minutes are counted too low.
SELECT
    59 - age AS minute,
    count(*) FILTER (WHERE kind = 'acquired') AS granted,
    count(*) FILTER (WHERE kind = 'expired') AS expired
FROM (
    SELECT kind, floor(extract(epoch FROM statement_timestamp() - at) / 60)::int AS age
    FROM octo_event
    WHERE space_id = %(space_id)s AND at > statement_timestamp() - interval '1 hour'
    ORDER BY at DESC
    LIMIT 100000
) AS latest
WHERE age BETWEEN 0 AND 59
GROUP BY age
ORDER BY minute
