-- Where the first rollup begins: at the oldest event there is.
INSERT INTO octo_event_cursor (reader, txid)
SELECT 'rollup', coalesce((SELECT txid::text::bigint FROM octo_event ORDER BY txid LIMIT 1), 0)
ON CONFLICT (reader) DO NOTHING
