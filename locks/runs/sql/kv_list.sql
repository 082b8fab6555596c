-- The entries of a layer whose path matches, sorted by path, without their values. Changes nothing.
--
-- $1 digest (hex) · $2 layer or null for the caller's own · $3 the literal text that matching paths start with · $4 pattern
-- (a regular expression) · $5 path to continue after · $6 limit
-- There is always a row: without entries it carries the verdict only. A worker sees its own part of /peer only; a lead, also
-- the one of the parent layer, sees all.
SELECT
    coalesce(auth.refusal, 'listed') AS verdict,
    entry.path AS name, entry.version, entry.encoding, entry.size, entry.written_by, entry.written_at,
    clock_timestamp() AS now,
    auth.space_id,
    auth.requests_per_second
FROM octo_kv_auth($1, 'locks:read', $2::uuid) AS auth
LEFT JOIN LATERAL (
    SELECT path, version, encoding, size, written_by, written_at
    FROM octo_kv_entry
    WHERE auth.refusal IS NULL
      AND octo_kv_entry.layer_id = auth.layer_id
      AND NOT is_deleted
      AND path > $5::text COLLATE "C"
      AND path >= $3::text COLLATE "C"
      AND starts_with(path, $3::text)
      AND path ~ $4::text
      AND (auth.is_lead OR NOT starts_with(path, '/peer/') OR starts_with(path, '/peer/' || auth.actor_name || '/'))
    ORDER BY path
    LIMIT $6::int
) AS entry ON true
ORDER BY entry.path
