-- Rollup: adds the events that came since the last one to the statistics, each exactly once. One row: how many.
--
-- $1 the most transactions to read at once
--
-- The reader's position is locked first: of two that run at once the second has nothing to do. It moves in the same
-- commit as the counts, and stops short of the oldest transaction under way (see follow.sql), so an event that
-- commits late is counted later and none is counted twice.
WITH position AS MATERIALIZED (
    SELECT commit_position::text::xid8 AS start FROM octo_event_cursor WHERE reader = 'rollup' FOR UPDATE SKIP LOCKED
),
horizon AS MATERIALIZED (
    SELECT
        position.start,
        least(
            pg_snapshot_xmin(pg_current_snapshot())::text::bigint, position.start::text::bigint + $1::bigint
        )::text::xid8 AS beyond
    FROM position
),
fresh AS MATERIALIZED (
    SELECT event.space_id, date_trunc('minute', event.at, 'UTC') AS minute, event.kind, event.held_ms
    FROM octo_event AS event
    WHERE event.commit_position >= (SELECT start FROM horizon)
      AND event.commit_position < (SELECT beyond FROM horizon)
      AND event.kind IN ('acquired', 'released', 'expired', 'force_released')
      AND event.space_id IS NOT NULL
),
counted AS (
    INSERT INTO octo_stats_minute AS total (space_id, minute, acquired, released, expired, forced)
    SELECT
        space_id, minute,
        count(*) FILTER (WHERE kind = 'acquired'), count(*) FILTER (WHERE kind = 'released'),
        count(*) FILTER (WHERE kind = 'expired'), count(*) FILTER (WHERE kind = 'force_released')
    FROM fresh
    GROUP BY space_id, minute
    ORDER BY space_id, minute
    ON CONFLICT (space_id, minute) DO UPDATE SET
        acquired = total.acquired + excluded.acquired, released = total.released + excluded.released,
        expired = total.expired + excluded.expired, forced = total.forced + excluded.forced
),
distributed AS (
    INSERT INTO octo_stats_histogram AS total (space_id, minute, measure, bucket, count)
    SELECT space_id, minute, 'hold', floor(ln(greatest(held_ms, 1)) / ln(2) * 4 + 1e-9)::smallint AS bucket, count(*)
    FROM fresh
    WHERE held_ms IS NOT NULL
    GROUP BY space_id, minute, bucket
    ORDER BY space_id, minute, bucket
    ON CONFLICT (space_id, minute, measure, bucket) DO UPDATE SET count = total.count + excluded.count
),
moved AS (
    UPDATE octo_event_cursor SET commit_position = greatest(commit_position, horizon.beyond::text::bigint)
    FROM horizon
    WHERE reader = 'rollup'
)
SELECT
    (SELECT count(*)::int FROM fresh) AS events,
    coalesce((SELECT beyond < pg_snapshot_xmin(pg_current_snapshot()) FROM horizon), false) AS more
