-- The position before the oldest transaction in progress: everything that commits from now on comes after it.
SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint - 1 AS commit_position, 9223372036854775807 AS id
