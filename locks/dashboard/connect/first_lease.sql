-- The latest lease of a space, and whether it is the only one in the history; no row if there was none.
SELECT lock_name AS name, coalesce(owner, '') AS owner, actor_name AS token, at,
       count(*) OVER () = 1 AS is_first, statement_timestamp() AS now
FROM (
    SELECT lock_name, owner, actor_name, at, id
    FROM octo_event
    WHERE space_id = %(space_id)s AND kind = 'acquired'
    ORDER BY at DESC, id DESC
    LIMIT 2
) AS latest
ORDER BY at DESC, id DESC
LIMIT 1
