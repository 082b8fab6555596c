-- What the rest of this transaction sees, and how far back the history reaches.
SELECT
    pg_current_snapshot()::text AS snapshot,
    pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS beyond,
    clock_timestamp() AS now,
    (
        SELECT min(to_date(right(child.relname, 7), 'YYYY_MM'))::timestamp AT TIME ZONE 'UTC'
        FROM pg_inherits
        JOIN pg_class AS child ON child.oid = pg_inherits.inhrelid
        WHERE pg_inherits.inhparent = 'octo_event'::regclass AND child.relname ~ '^octo_event_\d{4}_\d{2}$'
    ) AS kept_since
