-- Writes entries: one row for each request of the batch, in its order.
--
-- $1 is a JSON array of kv.KvPut. The limits of a layer are literals, compared with those of kv.py by a test.
--
-- Lock order, here and in kv_delete.sql: entries by (layer, path), then layers by id. The totals of a layer change under
-- its row lock only. A new path is inserted under that lock too, so an insert never waits for another: if the snapshot
-- did not show the path and another statement has inserted it, nothing is changed and the verdict is `retry`. A write
-- that changes neither the size nor the number of entries does not lock the layer.
--
-- Of several writes of one batch to one path the first is done and the others get `retry`. A write that would exceed a
-- limit together with earlier ones of the batch, but not alone, gets `retry` as well: one of those may be refused.
--
-- A path never has the same version twice: otherwise a compare-and-swap could replace another entry than the one that was
-- read. The row of a deleted path stays, with its last version (kv_delete.sql), and a new path starts after
-- `kv_last_version`, the highest of those that were removed.
WITH auth AS MATERIALIZED (
    SELECT
        request.index, request.path, decode(request.value, 'base64') AS value, request.encoding, request.size,
        request.expected_version, auth.*,
        row_number() OVER (PARTITION BY auth.layer_id, request.path ORDER BY request.index) AS nth_of_path
    FROM json_to_recordset($1::json) AS request (
        index int, digest text, path text COLLATE "C", value text, encoding text, size int, expected_version bigint
    )
    CROSS JOIN LATERAL octo_kv_auth(request.digest, 'locks:write', NULL) AS auth
),
locked AS MATERIALIZED (
    SELECT entry.layer_id, entry.path, entry.version, entry.size, entry.is_deleted
    FROM auth
    JOIN octo_kv_entry AS entry ON entry.layer_id = auth.layer_id AND entry.path = auth.path
    WHERE auth.refusal IS NULL AND auth.nth_of_path = 1
    ORDER BY entry.layer_id, entry.path
    FOR NO KEY UPDATE OF entry
),
compared AS MATERIALIZED (
    SELECT
        auth.*, present.version AS current_version, locked.version AS last_version,
        auth.size - coalesce(locked.size, 0) AS added_bytes, (present.version = 0)::int AS added_keys,
        CASE
            WHEN auth.nth_of_path > 1 THEN 'retry'
            WHEN auth.expected_version <> present.version THEN 'version_mismatch'
        END AS refused
    FROM auth
    LEFT JOIN locked ON locked.layer_id = auth.layer_id AND locked.path = auth.path
    CROSS JOIN LATERAL (SELECT CASE WHEN locked.is_deleted THEN 0 ELSE coalesce(locked.version, 0) END AS version) AS present
    WHERE auth.refusal IS NULL
),
layer AS MATERIALIZED (
    SELECT layer.id, layer.kv_bytes, layer.kv_keys, layer.kv_last_version
    FROM octo_layer AS layer
    WHERE layer.id = ANY (ARRAY(
        SELECT layer_id FROM compared WHERE refused IS NULL AND (added_bytes <> 0 OR added_keys <> 0)))
    ORDER BY layer.id
    FOR NO KEY UPDATE
),
clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now, locked_rows FROM (SELECT count(*) AS locked_rows FROM layer) AS all_locked
),
decision AS MATERIALIZED (
    SELECT
        counted.*,
        CASE
            WHEN refused IS NOT NULL THEN refused
            WHEN added_bytes > 0 AND kv_bytes + added_bytes > 67108864 THEN 'too_many_bytes'
            WHEN added_keys > 0 AND kv_keys + added_keys > 10000 THEN 'too_many_keys'
            WHEN added_bytes > 0 AND kv_bytes + batch_bytes > 67108864 THEN 'retry'
            WHEN added_keys > 0 AND kv_keys + batch_keys > 10000 THEN 'retry'
            ELSE 'written'
        END AS verdict
    FROM (
        SELECT
            compared.*, layer.kv_bytes, layer.kv_keys, coalesce(last_version, kv_last_version) + 1 AS new_version,
            sum(CASE WHEN refused IS NULL THEN added_bytes ELSE 0 END) OVER so_far AS batch_bytes,
            sum(CASE WHEN refused IS NULL THEN added_keys ELSE 0 END) OVER so_far AS batch_keys
        FROM compared
        LEFT JOIN layer ON layer.id = compared.layer_id
        WINDOW so_far AS (PARTITION BY compared.layer_id ORDER BY compared.index)
    ) AS counted
),
updated AS (
    UPDATE octo_kv_entry AS entry SET
        version = decision.new_version, value = decision.value, encoding = decision.encoding,
        size = decision.size, written_by = decision.actor_name, written_at = clock.now, is_deleted = false
    FROM decision CROSS JOIN clock
    WHERE decision.verdict = 'written' AND decision.last_version IS NOT NULL
      AND entry.layer_id = decision.layer_id AND entry.path = decision.path
    RETURNING
        decision.index, entry.layer_id, entry.path, decision.added_bytes, decision.added_keys,
        decision.added_keys AS revived
),
inserted AS (
    INSERT INTO octo_kv_entry (layer_id, path, version, value, encoding, size, written_by, written_at)
    SELECT layer_id, path, new_version, value, encoding, size, actor_name, clock.now
    FROM decision CROSS JOIN clock
    WHERE verdict = 'written' AND last_version IS NULL
    ORDER BY layer_id, path
    ON CONFLICT (layer_id, path) DO NOTHING
    RETURNING layer_id, path, size
),
written AS MATERIALIZED (
    SELECT index, layer_id, path, added_bytes, added_keys, revived FROM updated
    UNION ALL
    SELECT decision.index, inserted.layer_id, inserted.path, inserted.size, 1, 0
    FROM inserted
    JOIN decision ON decision.layer_id = inserted.layer_id AND decision.path = inserted.path
        AND decision.verdict = 'written'
),
totals AS (
    UPDATE octo_layer AS layer SET
        kv_bytes = layer.kv_bytes + added.bytes, kv_keys = layer.kv_keys + added.keys,
        kv_deleted_paths = layer.kv_deleted_paths - added.revived
    FROM (
        SELECT layer_id, sum(added_bytes) AS bytes, sum(added_keys)::int AS keys, sum(revived)::int AS revived
        FROM written
        GROUP BY layer_id
    ) AS added
    WHERE layer.id = added.layer_id AND (added.bytes <> 0 OR added.keys <> 0)
),
-- Only where a request waits: a commit that notifies takes a lock that all such commits share.
notified AS MATERIALIZED (
    SELECT count(*) AS paths
    FROM written
    JOIN octo_layer AS layer ON layer.id = written.layer_id AND layer.waited_until > statement_timestamp()
    CROSS JOIN LATERAL (SELECT pg_notify('octo_kv', written.layer_id::text || written.path)) AS sent
)
SELECT
    auth.index,
    CASE
        WHEN auth.refusal IS NOT NULL THEN auth.refusal
        WHEN decision.verdict = 'written' AND written.index IS NULL THEN 'retry'
        ELSE decision.verdict
    END AS verdict,
    auth.path AS name,
    CASE WHEN decision.verdict = 'written' THEN decision.new_version ELSE decision.current_version END AS version,
    clock.now,
    auth.space_id,
    auth.requests_per_second
FROM auth
CROSS JOIN clock
CROSS JOIN notified
LEFT JOIN decision USING (index)
LEFT JOIN written USING (index)
ORDER BY auth.index
