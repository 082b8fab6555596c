-- The locks whose rows were ticked, by name. Changes nothing. Without an owner if they have changed since.
SELECT
    lock.name, ticked.fencing_token,
    CASE WHEN lock.fencing_token = ticked.fencing_token THEN lock.owner END AS owner
FROM unnest(%(ids)s::bigint[], %(tokens)s::bigint[]) AS ticked (id, fencing_token)
JOIN octo_lock AS lock ON lock.id = ticked.id AND lock.space_id = %(space_id)s
ORDER BY lock.name
