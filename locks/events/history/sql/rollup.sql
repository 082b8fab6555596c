-- Adds the events since the last rollup to the statistics, each exactly once. Returns how many, and whether there are more.
--
-- $1 how many transactions to read at most
--
-- The cursor is locked first: a second rollup at the same time does nothing. It moves in the commit that adds the counts
-- and stops before the oldest transaction in progress (see stream/sql/transitions.sql), so an event that commits late is
-- counted by a later rollup, and none is counted twice.
--
-- The cursor and the counts are replicated and backed up with the events, so after a failover or a restore they fit them.
WITH current AS MATERIALIZED (SELECT octo_timeline() AS timeline),
cursor AS MATERIALIZED (
    SELECT
        current.timeline,
        CASE
            -- May be after this statement's snapshot: another rollup has just moved it.
            WHEN octo_event_cursor.timeline = current.timeline THEN commit_position
            -- A position in the future is from before a dump was loaded into a new server: continue at the end of the history.
            ELSE least(commit_position, pg_snapshot_xmin(pg_current_snapshot())::text::bigint)
        END::text::xid8 AS start
    FROM current
    CROSS JOIN octo_event_cursor
    WHERE reader = 'rollup'
    FOR UPDATE OF octo_event_cursor SKIP LOCKED
),
horizon AS MATERIALIZED (
    SELECT
        cursor.start, cursor.timeline,
        -- From the next event on: a dump may have been loaded into a server that is billions of transactions ahead.
        least(
            pg_snapshot_xmin(pg_current_snapshot())::text::bigint,
            (
                SELECT commit_position::text::bigint FROM octo_event
                WHERE commit_position >= cursor.start
                ORDER BY commit_position LIMIT 1
            ) + $1::bigint
        )::text::xid8 AS stop_before
    FROM cursor
),
event AS MATERIALIZED (
    SELECT space_id, at, kind, held_ms
    FROM octo_event
    WHERE commit_position >= (SELECT start FROM horizon)
      AND commit_position < (SELECT stop_before FROM horizon)
      AND space_id IS NOT NULL
),
transition AS MATERIALIZED (
    SELECT space_id, date_trunc('minute', at, 'UTC') AS minute, kind, held_ms
    FROM event
    WHERE kind IN ('acquired', 'released', 'expired', 'force_released')
),
added_months AS (
    INSERT INTO octo_stats_month AS total (space_id, month, events)
    SELECT space_id, date_trunc('month', at, 'UTC')::date AS month, count(*)
    FROM event
    GROUP BY space_id, month
    ORDER BY space_id, month
    ON CONFLICT (space_id, month) DO UPDATE SET events = total.events + excluded.events
),
added_counts AS (
    INSERT INTO octo_stats_minute AS total (space_id, minute, acquired, released, expired, forced)
    SELECT
        space_id, minute,
        count(*) FILTER (WHERE kind = 'acquired'), count(*) FILTER (WHERE kind = 'released'),
        count(*) FILTER (WHERE kind = 'expired'), count(*) FILTER (WHERE kind = 'force_released')
    FROM transition
    GROUP BY space_id, minute
    ORDER BY space_id, minute
    ON CONFLICT (space_id, minute) DO UPDATE SET
        acquired = total.acquired + excluded.acquired, released = total.released + excluded.released,
        expired = total.expired + excluded.expired, forced = total.forced + excluded.forced
),
added_holds AS (
    INSERT INTO octo_stats_histogram AS total (space_id, minute, measure, bucket, count)
    SELECT space_id, minute, 'hold', floor(ln(greatest(held_ms, 1)) / ln(2) * 4 + 1e-9)::smallint AS bucket, count(*)
    FROM transition
    WHERE held_ms IS NOT NULL
    GROUP BY space_id, minute, bucket
    ORDER BY space_id, minute, bucket
    ON CONFLICT (space_id, minute, measure, bucket) DO UPDATE SET count = total.count + excluded.count
),
moved_cursor AS (
    UPDATE octo_event_cursor
    SET commit_position = greatest(horizon.stop_before, horizon.start)::text::bigint, timeline = horizon.timeline
    FROM horizon
    WHERE reader = 'rollup'
)
SELECT
    (SELECT count(*)::int FROM transition) AS events,
    coalesce((SELECT stop_before < pg_snapshot_xmin(pg_current_snapshot()) FROM horizon), false) AS more
