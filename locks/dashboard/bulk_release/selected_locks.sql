-- The locks whose rows were selected, by name. Changes nothing. `owner` is null if the holder has changed since.
SELECT
    lock.name, selected.fencing_token,
    CASE WHEN lock.fencing_token = selected.fencing_token THEN lock.owner END AS owner
FROM unnest(%(ids)s::bigint[], %(tokens)s::bigint[]) AS selected (id, fencing_token)
JOIN octo_lock AS lock ON lock.id = selected.id AND lock.space_id = %(space_id)s
ORDER BY lock.name
