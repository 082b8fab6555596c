-- The position from which on everything is still to come. Whatever was committed before is behind it.
SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint - 1 AS commit_position, 9223372036854775807 AS id
