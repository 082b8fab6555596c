-- Creates deliveries of the events after each webhook's cursor, and moves the cursor, in one commit. Returns how many were
-- created, and whether there are more events.
--
-- $1 deliveries per webhook at most · $2 transactions to read at most · $3 pending deliveries per webhook at most
-- $4 for how many hours a delivery is tried · $5 whether for alert rules, or for webhooks · $6 alert rules in their quiet hours
-- $7 how many events a message of a rule lists at most
--
-- A webhook gets a delivery for each event, a rule one message about all force-releases since its cursor. In quiet hours
-- the cursor of a rule stays, and the message after them is about all of them. What else a rule sends is not read
-- from the history: see services/alerts.
--
-- The history is the outbox: acquire and release write nothing for webhooks, and still no event is lost or delivered twice
-- by a crash. A webhook with too many pending deliveries keeps its cursor until there is room. A second fan-out at the same
-- time skips the webhooks that the first one has locked.
--
-- The cursor is replicated and backed up with the events, so after a failover or a restore it fits them. But the receiver may
-- know of events that the new timeline lacks: a webhook whose cursor is of another timeline gets a `reset` first. A cursor
-- without a timeline is that of a new webhook, or of one from before an upgrade.
WITH timeline AS MATERIALIZED (SELECT octo_timeline() AS current),
webhook AS MATERIALIZED (
    SELECT
        webhook.id, webhook.space_id, webhook.kinds, webhook.prefix, webhook.cursor_event_id,
        octo_glob_pattern(webhook.lock_pattern) AS name_pattern,
        webhook.cursor_timeline, timeline.current AS timeline,
        CASE
            WHEN webhook.cursor_timeline = timeline.current THEN webhook.cursor_commit_position
            -- A position in the future is from before a dump was loaded into a new server: continue at the end of the history.
            ELSE least(webhook.cursor_commit_position, pg_snapshot_xmin(pg_current_snapshot())::text::bigint - 1)
        END AS start
    FROM timeline
    CROSS JOIN octo_webhook AS webhook
    JOIN octo_space ON octo_space.id = webhook.space_id
    LEFT JOIN octo_alert_rule AS rule ON rule.webhook_id = webhook.id
    WHERE webhook.paused_at IS NULL AND octo_space.archived_at IS NULL
      AND (rule.webhook_id IS NOT NULL) = $5::boolean
      AND (NOT $5::boolean OR 'force_released' = ANY (webhook.kinds) AND webhook.id <> ALL ($6::bigint[]))
    ORDER BY webhook.id
    FOR NO KEY UPDATE OF webhook SKIP LOCKED
),
reader AS MATERIALIZED (
    SELECT
        webhook.*,
        -- Stop before the oldest transaction in progress: see stream/sql/transitions.sql. With a backlog, count from the next
        -- event: a dump may have been loaded into a server that is billions of transactions ahead.
        CASE
            WHEN horizon.xmin <= webhook.start + $2::bigint THEN horizon.xmin
            ELSE least(
                horizon.xmin,
                (
                    SELECT commit_position::text::bigint FROM octo_event
                    WHERE commit_position >= webhook.start::text::xid8
                    ORDER BY commit_position LIMIT 1
                ) + $2::bigint
            )
        END AS stop_before,
        horizon.xmin
    FROM webhook
    CROSS JOIN (SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS xmin) AS horizon
    WHERE (
        SELECT count(*) FROM (
            SELECT FROM octo_delivery
            WHERE octo_delivery.webhook_id = webhook.id AND octo_delivery.status = 'pending'
            LIMIT $3::int
        ) AS pending
    ) < $3::int
),
event AS MATERIALIZED (
    SELECT reader.id AS webhook_id, event.*
    FROM reader
    CROSS JOIN LATERAL (
        SELECT
            commit_position, octo_event.id, at, kind, lock_name, fencing_token, owner, metadata, reason, actor_name
        FROM octo_event
        WHERE octo_event.commit_position >= reader.start::text::xid8
          AND (octo_event.commit_position > reader.start::text::xid8 OR octo_event.id > reader.cursor_event_id)
          AND octo_event.commit_position < reader.stop_before::text::xid8
          AND CASE
              WHEN octo_event.kind IN ('system_unhealthy', 'system_recovered') THEN octo_event.space_id IS NULL
              ELSE octo_event.space_id = reader.space_id
          END
          AND CASE
              WHEN $5::boolean THEN octo_event.kind = 'force_released'
              WHEN octo_event.kind IN ('acquired', 'released', 'expired', 'force_released')
                  THEN octo_event.lock_name IS NOT NULL
                      AND (cardinality(reader.kinds) = 0 OR octo_event.kind = ANY (reader.kinds))
              -- Only for webhooks that name them: receivers of all changes of locks do not expect them.
              WHEN octo_event.kind IN (
                  'stuck', 'stuck_cleared', 'token_expiring', 'system_unhealthy', 'system_recovered'
              ) THEN octo_event.kind = ANY (reader.kinds)
              ELSE false
          END
          -- An event without a lock is not for a webhook that is limited to some names.
          AND starts_with(coalesce(octo_event.lock_name, ''), reader.prefix)
          AND (reader.name_pattern IS NULL OR octo_event.lock_name LIKE reader.name_pattern)
        ORDER BY octo_event.commit_position, octo_event.id
        LIMIT $1::int
    ) AS event
),
reset AS (
    -- Receivers recognise a delivery that comes twice by its id. The sequence may return ids of events that were lost, and
    -- that the receiver has handled: ids of resets are negative.
    SELECT id AS webhook_id, -(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS id
    FROM reader
    WHERE NOT $5::boolean AND cursor_timeline <> timeline
),
created AS (
    INSERT INTO octo_delivery (
        webhook_id, public_id, event_id, kind, lock_name, fencing_token, owner, metadata, reason, observed_at,
        status, attempts, next_attempt_at, deadline_at
    )
    SELECT
        webhook_id, gen_random_uuid(), id, kind, lock_name, fencing_token, owner, metadata, reason, at,
        'pending', 0, clock_timestamp(), clock_timestamp() + $4::int * interval '1 hour'
    FROM (
        SELECT * FROM event WHERE NOT $5::boolean
        UNION ALL
        SELECT
            webhook_id, '0', id, clock_timestamp(), 'reset', '', NULL, NULL, NULL,
            'The database was replaced or restored. Read the locks again: events may be missing, and some that were '
            'sent may be void.', NULL
        FROM reset
    ) AS delivery
    ORDER BY webhook_id, commit_position, id
    ON CONFLICT (webhook_id, event_id) DO NOTHING
),
created_message AS (
    INSERT INTO octo_delivery (
        webhook_id, public_id, event_id, kind, lock_name, content, observed_at, status, attempts, next_attempt_at, deadline_at
    )
    SELECT
        webhook_id, gen_random_uuid(), min(id), 'force_released', '',
        jsonb_build_object(
            'total', count(*),
            'items', jsonb_agg(
                jsonb_build_object(
                    'subject', lock_name, 'fencing_token', fencing_token, 'owner', owner, 'since', at,
                    'text', concat_ws(': ', 'force-released by ' || actor_name, reason)
                )
                ORDER BY commit_position, id
            ) FILTER (WHERE position <= $7::int)
        ),
        max(at), 'pending', 0, clock_timestamp(), clock_timestamp() + $4::int * interval '1 hour'
    FROM (SELECT *, row_number() OVER (PARTITION BY webhook_id ORDER BY commit_position, id) AS position FROM event) AS listed
    WHERE $5::boolean
    GROUP BY webhook_id
    ON CONFLICT (webhook_id, event_id) DO NOTHING
),
result AS (
    SELECT
        reader.id, reader.timeline, reader.start, reader.stop_before, reader.xmin, count(event.id) AS events,
        reader.cursor_timeline IS DISTINCT FROM reader.timeline AS is_other_timeline,
        CASE
            WHEN count(event.id) = $1::int THEN max(event.commit_position::text::bigint)
            ELSE reader.stop_before - 1
        END AS position
    FROM reader
    LEFT JOIN event ON event.webhook_id = reader.id
    GROUP BY reader.id, reader.cursor_timeline, reader.timeline, reader.start, reader.stop_before, reader.xmin
),
moved_cursor AS (
    UPDATE octo_webhook SET
        cursor_commit_position = result.position,
        cursor_event_id = CASE
            WHEN result.events = $1::int
                THEN (SELECT max(event.id) FROM event
                      WHERE event.webhook_id = result.id AND event.commit_position = result.position::text::xid8)
            ELSE 9223372036854775807
        END,
        cursor_timeline = result.timeline
    FROM result
    WHERE octo_webhook.id = result.id
      -- Without events the cursor may lag behind: one write in a thousand transactions is enough.
      AND (result.events > 0 OR result.position > result.start + 1000 OR result.is_other_timeline)
)
SELECT
    (coalesce(sum(events), 0) + (SELECT count(*) FROM reset))::int AS created,
    coalesce(bool_or(events = $1::int OR stop_before < xmin), false) AS more
FROM result
