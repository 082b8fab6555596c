-- Reads entries: one row for each request of the batch, in its order. Changes nothing.
--
-- $1 is a JSON array of kv.KvGet. The value is returned only if the entry has at least `min_version`, so that a
-- check for many waiting requests does not carry values that did not change.
SELECT
    request.index,
    CASE
        WHEN auth.refusal IS NOT NULL THEN auth.refusal
        WHEN entry.version >= request.min_version THEN 'found'
        ELSE 'unknown'
    END AS verdict,
    request.path AS name,
    coalesce(entry.version, 0) AS version,
    CASE WHEN entry.version >= request.min_version THEN entry.value END AS value,
    entry.encoding,
    entry.written_by,
    entry.written_at,
    auth.layer_id,
    clock_timestamp() AS now,
    auth.space_id,
    auth.requests_per_second
FROM json_to_recordset($1::json) AS request (
    index int, digest text, layer_id uuid, path text COLLATE "C", min_version bigint
)
CROSS JOIN LATERAL octo_kv_auth(request.digest, 'locks:read', request.layer_id) AS auth
LEFT JOIN LATERAL (
    SELECT version, value, encoding, written_by, written_at
    FROM octo_kv_entry
    WHERE auth.refusal IS NULL AND octo_kv_entry.layer_id = auth.layer_id AND octo_kv_entry.path = request.path
      AND NOT is_deleted
    LIMIT 1
) AS entry ON true
ORDER BY request.index
