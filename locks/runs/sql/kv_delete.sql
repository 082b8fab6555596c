-- Deletes an entry. One row. $1 is one kv.KvDelete as JSON. Lock order as in kv_put.sql.
WITH auth AS MATERIALIZED (
    SELECT request.path, request.expected_version, auth.*
    FROM json_to_record($1::json) AS request (digest text, path text COLLATE "C", expected_version bigint)
    CROSS JOIN LATERAL octo_kv_auth(request.digest, 'locks:write', NULL) AS auth
),
locked AS MATERIALIZED (
    SELECT entry.layer_id, entry.path, entry.version, entry.size
    FROM auth
    JOIN octo_kv_entry AS entry ON entry.layer_id = auth.layer_id AND entry.path = auth.path
    WHERE auth.refusal IS NULL
    FOR UPDATE OF entry
),
deleted AS (
    DELETE FROM octo_kv_entry AS entry
    USING locked CROSS JOIN auth
    WHERE entry.layer_id = locked.layer_id AND entry.path = locked.path
      AND coalesce(auth.expected_version = locked.version, true)
    RETURNING locked.layer_id, locked.size
),
totals AS (
    UPDATE octo_layer AS layer SET kv_bytes = layer.kv_bytes - deleted.size, kv_keys = layer.kv_keys - 1
    FROM deleted
    WHERE layer.id = deleted.layer_id
)
SELECT
    0 AS index,
    CASE
        WHEN auth.refusal IS NOT NULL THEN auth.refusal
        WHEN deleted.layer_id IS NOT NULL THEN 'deleted'
        WHEN coalesce(locked.version, 0) <> auth.expected_version THEN 'version_mismatch'
        ELSE 'unknown'
    END AS verdict,
    auth.path AS name,
    coalesce(locked.version, 0) AS version,
    clock_timestamp() AS now,
    auth.space_id,
    auth.requests_per_second
FROM auth
LEFT JOIN locked ON true
LEFT JOIN deleted ON true
