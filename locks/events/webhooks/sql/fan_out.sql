-- Fan-out: makes deliveries of what has happened since each webhook's position, and moves the position, in one commit.
-- One row: how many were made, and whether there is more.
--
-- $1 the most deliveries of a webhook at once · $2 the most transactions to look at · $3 the most that may be pending
-- $4 how many hours a delivery is tried
--
-- So the history is the outbox: acquire and release write nothing for a webhook, and yet no event is lost or comes
-- twice, whoever dies when. A webhook whose receiver does not keep up stays where it is in the history until it does.
-- Of two that run at once the second passes over what the first is at work on.
WITH webhook AS MATERIALIZED (
    SELECT
        webhook.id, webhook.space_id, webhook.kinds, webhook.prefix, webhook.cursor_event_id, webhook.cursor_commit_position AS kept,
        -- A position that is still to come is that of another server, from before a restore: go on at the end.
        least(webhook.cursor_commit_position, pg_snapshot_xmin(pg_current_snapshot())::text::bigint - 1) AS commit_position
    FROM octo_webhook AS webhook
    JOIN octo_space ON octo_space.id = webhook.space_id
    WHERE webhook.paused_at IS NULL AND octo_space.archived_at IS NULL
    ORDER BY webhook.id
    FOR NO KEY UPDATE OF webhook SKIP LOCKED
),
reader AS MATERIALIZED (
    SELECT
        webhook.*,
        -- Short of the oldest transaction under way: see history/sql/follow.sql.
        least(pg_snapshot_xmin(pg_current_snapshot())::text::bigint, webhook.cursor_commit_position + $2::bigint) AS beyond
    FROM webhook
    WHERE (
        SELECT count(*) FROM (
            SELECT FROM octo_delivery
            WHERE octo_delivery.webhook_id = webhook.id AND octo_delivery.status = 'pending'
            LIMIT $3::int
        ) AS pending
    ) < $3::int
),
news AS MATERIALIZED (
    SELECT reader.id AS webhook_id, event.*
    FROM reader
    CROSS JOIN LATERAL (
        SELECT commit_position, octo_event.id, at, kind, lock_name, fencing_token, owner, metadata, reason
        FROM octo_event
        WHERE octo_event.commit_position >= reader.commit_position::text::xid8
          AND (octo_event.commit_position > reader.commit_position::text::xid8 OR octo_event.id > reader.cursor_event_id)
          AND octo_event.commit_position < reader.beyond::text::xid8
          AND octo_event.space_id = reader.space_id
          AND octo_event.lock_name IS NOT NULL
          AND octo_event.kind IN ('acquired', 'released', 'expired', 'force_released')
          AND (cardinality(reader.kinds) = 0 OR octo_event.kind = ANY (reader.kinds))
          AND starts_with(octo_event.lock_name, reader.prefix)
        ORDER BY octo_event.commit_position, octo_event.id
        LIMIT $1::int
    ) AS event
),
made AS (
    INSERT INTO octo_delivery (
        webhook_id, public_id, event_id, kind, lock_name, fencing_token, owner, metadata, reason, observed_at,
        status, attempts, next_attempt_at, deadline_at
    )
    SELECT
        webhook_id, gen_random_uuid(), id, kind, lock_name, fencing_token, owner, metadata, reason, at,
        'pending', 0, clock_timestamp(), clock_timestamp() + $4::int * interval '1 hour'
    FROM news
    ORDER BY webhook_id, commit_position, id
    ON CONFLICT (webhook_id, event_id) DO NOTHING
),
reached AS (
    SELECT
        reader.id, reader.kept, reader.commit_position AS before, reader.beyond, count(news.id) AS found,
        CASE WHEN count(news.id) = $1::int THEN max(news.commit_position::text::bigint) ELSE reader.beyond - 1 END AS commit_position
    FROM reader
    LEFT JOIN news ON news.webhook_id = reader.id
    GROUP BY reader.id, reader.kept, reader.commit_position, reader.beyond
),
moved AS (
    UPDATE octo_webhook SET
        cursor_commit_position = reached.commit_position,
        cursor_event_id = CASE
            WHEN reached.found = $1::int
                THEN (SELECT max(news.id) FROM news WHERE news.webhook_id = reached.id
                      AND news.commit_position = reached.commit_position::text::xid8)
            ELSE 9223372036854775807
        END
    FROM reached
    WHERE octo_webhook.id = reached.id
      -- Not each second for nothing: a position may lag behind where nothing happened.
      AND (reached.found > 0 OR reached.commit_position > reached.before + 1000 OR reached.kept <> reached.before)
)
SELECT
    coalesce(sum(found), 0)::int AS made,
    coalesce(bool_or(found = $1::int OR beyond = before + $2::bigint), false) AS more
FROM reached
