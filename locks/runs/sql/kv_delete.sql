-- Deletes an entry. One row. $1 is one kv.KvDelete as JSON. Lock order as in kv_put.sql.
--
-- The row stays, empty, so that the next entry of the path has a higher version. A layer has so many of these rows at most
-- as entries; then they are removed, and new paths of the layer start after their highest version (`kv_last_version`). A
-- row that another statement has locked is left for the next time: that one may be waiting for the layer.
WITH auth AS MATERIALIZED (
    SELECT request.path, request.expected_version, auth.*
    FROM json_to_record($1::json) AS request (digest text, path text COLLATE "C", expected_version bigint)
    CROSS JOIN LATERAL octo_kv_auth(request.digest, 'locks:write', NULL) AS auth
),
locked AS MATERIALIZED (
    SELECT entry.layer_id, entry.path, entry.version, entry.size
    FROM auth
    JOIN octo_kv_entry AS entry ON entry.layer_id = auth.layer_id AND entry.path = auth.path
    WHERE auth.refusal IS NULL AND NOT entry.is_deleted
    FOR NO KEY UPDATE OF entry
),
deleted AS (
    UPDATE octo_kv_entry AS entry SET is_deleted = true, value = '', size = 0
    FROM locked CROSS JOIN auth
    WHERE entry.layer_id = locked.layer_id AND entry.path = locked.path
      AND coalesce(auth.expected_version = locked.version, true)
    RETURNING locked.layer_id, locked.size
),
layer AS MATERIALIZED (
    SELECT layer.id, layer.kv_deleted_paths
    FROM octo_layer AS layer
    WHERE layer.id = (SELECT layer_id FROM deleted)
    FOR NO KEY UPDATE
),
to_remove AS MATERIALIZED (
    SELECT entry.layer_id, entry.path
    FROM octo_kv_entry AS entry
    WHERE entry.layer_id = (SELECT id FROM layer WHERE kv_deleted_paths >= 10000) AND entry.is_deleted
    FOR UPDATE SKIP LOCKED
),
removed AS (
    DELETE FROM octo_kv_entry AS entry
    USING to_remove
    WHERE entry.layer_id = to_remove.layer_id AND entry.path = to_remove.path
    RETURNING entry.version
),
totals AS (
    UPDATE octo_layer AS layer SET
        kv_bytes = layer.kv_bytes - deleted.size, kv_keys = layer.kv_keys - 1,
        kv_deleted_paths = layer.kv_deleted_paths + 1 - removed.count,
        kv_last_version = greatest(layer.kv_last_version, removed.last_version)
    FROM deleted CROSS JOIN (SELECT count(*)::int AS count, max(version) AS last_version FROM removed) AS removed
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
