-- What the rest of this transaction sees, and how far back the history goes.
SELECT
    pg_current_snapshot()::text AS snapshot,
    pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS xmax,
    octo_timeline() AS timeline,
    clock_timestamp() AS now,
    (SELECT min(month) FROM octo_event_month) AS history_start
