-- The first rollup begins at the oldest event.
INSERT INTO octo_event_cursor (reader, commit_position)
SELECT 'rollup', coalesce((SELECT commit_position::text::bigint FROM octo_event ORDER BY commit_position LIMIT 1), 0)
ON CONFLICT (reader) DO NOTHING
