-- Grants and expiries in each of the last sixty minutes of the clock, the current one included, oldest first. Changes nothing.
--
-- Reads at most the latest hundred thousand events: in a busier hour the earlier minutes are counted too low.
SELECT
    59 - age AS minute,
    count(*) FILTER (WHERE kind = 'acquired') AS granted,
    count(*) FILTER (WHERE kind = 'expired') AS expired
FROM (
    SELECT kind, (extract(epoch FROM date_trunc('minute', statement_timestamp()) - date_trunc('minute', at)) / 60)::int AS age
    FROM octo_event
    WHERE space_id = %(space_id)s AND at > statement_timestamp() - interval '1 hour'
    ORDER BY at DESC
    LIMIT 100000
) AS latest
WHERE age BETWEEN 0 AND 59
GROUP BY age
ORDER BY minute
