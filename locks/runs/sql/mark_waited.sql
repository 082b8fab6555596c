-- Requests wait for entries of these layers: writes notify for so many seconds. $1 layers · $2 seconds
WITH locked AS MATERIALIZED (
    SELECT id FROM octo_layer WHERE id = ANY ($1::uuid[]) ORDER BY id FOR NO KEY UPDATE
)
UPDATE octo_layer AS layer SET waited_until = clock_timestamp() + $2::int * interval '1 second'
FROM locked
WHERE layer.id = locked.id
