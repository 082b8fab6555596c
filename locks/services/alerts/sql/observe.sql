-- Compares what is wrong now with the open alerts: opens new ones, closes those that ended, and records both in the history.
-- Returns how many were opened and closed.
--
-- token_days: how long before its end a token expires soon; unhealthy: keys of the parts of the system that need action;
-- descriptions: of each of them; clear_seconds: how long trouble must be gone before its alert closes.
--
-- Which locks are stuck is read from octo_known_stuck_lock_v2, where the count of the Stuck page leaves its result, so this
-- statement grows with the trouble and not with the locks. A second evaluation at the same time waits for the first at
-- the unique key of open alerts, or at the row that it closes, and then finds nothing to do.
WITH present AS MATERIALIZED (
    SELECT
        'stuck' AS kind, space.id AS space_id, space.team_id, lock.name AS subject, lock.fencing_token, lock.owner,
        NULL::bigint AS token_id, coalesce(string_to_array(stuck.reasons, ' '), '{}') AS reasons, NULL::timestamptz AS due_at
    FROM octo_known_stuck_lock_v2 AS stuck
    JOIN octo_space AS space ON space.id = stuck.space_id AND space.archived_at IS NULL
    JOIN octo_lock AS lock
        ON lock.id = stuck.lock_id AND lock.fencing_token = stuck.fencing_token AND lock.lease_id IS NOT NULL
    UNION ALL
    -- In the last quarter of its life at the earliest, and not if it was issued for less than a day: the programs that
    -- issue such tokens replace them too.
    SELECT
        'token_expiring', space.id, space.team_id, token.public_id, NULL, token.name, token.id, '{}', token.expires_at
    FROM octo_token AS token
    JOIN octo_space AS space ON space.id = token.space_id AND space.archived_at IS NULL
    WHERE token.revoked_at IS NULL AND token.rotated_at IS NULL AND token.actor_session_id IS NULL
      AND token.expires_at > statement_timestamp()
      AND token.expires_at <= statement_timestamp() + %(token_days)s * interval '1 day'
      AND token.expires_at <= statement_timestamp() + (token.expires_at - token.created_at) / 4
      AND token.expires_at >= token.created_at + interval '1 day'
    UNION ALL
    SELECT 'system_unhealthy', NULL, NULL, part.key, NULL, part.description, NULL, '{}', NULL
    FROM unnest(%(unhealthy)s::text[], %(descriptions)s::text[]) AS part (key, description)
),
opened AS (
    INSERT INTO octo_alert (kind, space_id, subject, fencing_token, owner, reasons, due_at)
    SELECT kind, space_id, subject, fencing_token, owner, reasons, due_at FROM present ORDER BY kind, space_id, subject
    ON CONFLICT DO NOTHING
    RETURNING kind, space_id, subject
),
-- A queue can stay long while the lock changes hands: that is one occurrence, and the message names the present holder.
updated AS (
    UPDATE octo_alert AS alert
    SET absent_since = NULL, fencing_token = present.fencing_token, owner = present.owner, reasons = present.reasons,
        due_at = present.due_at
    FROM present
    WHERE alert.closed_at IS NULL AND alert.kind = present.kind AND alert.space_id IS NOT DISTINCT FROM present.space_id
      AND alert.subject = present.subject
      AND (alert.absent_since IS NOT NULL OR
           (alert.fencing_token, alert.reasons, alert.due_at) IS DISTINCT FROM (present.fencing_token, present.reasons, present.due_at))
),
absent AS MATERIALIZED (
    SELECT alert.id
    FROM octo_alert AS alert
    LEFT JOIN octo_space AS space ON space.id = alert.space_id
    LEFT JOIN octo_stuck_count AS counted ON counted.space_id = alert.space_id
        AND counted.counted_at > statement_timestamp() - interval '2 minutes'
    WHERE alert.closed_at IS NULL
      AND NOT EXISTS (
          SELECT FROM present
          WHERE present.kind = alert.kind AND present.space_id IS NOT DISTINCT FROM alert.space_id
            AND present.subject = alert.subject
      )
      -- A held lock is known not to be stuck if the count is recent and lists all stuck locks; snoozed ones are not in it.
      AND (
          alert.kind <> 'stuck' OR space.archived_at IS NOT NULL
          OR NOT EXISTS (
              SELECT FROM octo_lock AS lock
              WHERE lock.space_id = alert.space_id AND lock.name = alert.subject AND lock.lease_id IS NOT NULL
          )
          OR (
              counted.stuck <= cardinality(counted.lock_ids)
              AND NOT EXISTS (
                  SELECT FROM octo_snooze AS snooze
                  WHERE snooze.space_id = alert.space_id AND snooze.lock_name = alert.subject
                    AND snooze.fencing_token = alert.fencing_token AND snooze.until > statement_timestamp()
              )
          )
      )
),
ended AS (
    UPDATE octo_alert AS alert
    SET absent_since = coalesce(alert.absent_since, statement_timestamp()),
        closed_at = CASE WHEN alert.absent_since IS NOT NULL THEN statement_timestamp() END
    FROM absent
    WHERE alert.id = absent.id AND alert.closed_at IS NULL
      AND (alert.absent_since IS NULL
           OR alert.absent_since <= statement_timestamp() - %(clear_seconds)s * interval '1 second')
    RETURNING alert.kind, alert.space_id, alert.subject, alert.fencing_token, alert.owner, alert.opened_at, alert.closed_at
),
closed AS (
    SELECT * FROM ended WHERE closed_at IS NOT NULL
),
recorded AS (
    INSERT INTO octo_event (
        kind, team_id, space_id, lock_name, fencing_token, owner, token_id, actor_kind, actor_name, channel, reason, detail
    )
    SELECT
        present.kind, present.team_id, present.space_id,
        CASE WHEN present.kind = 'stuck' THEN present.subject END, present.fencing_token,
        CASE WHEN present.kind = 'stuck' THEN present.owner END, present.token_id, 'system', 'system', 'task',
        CASE present.kind
            WHEN 'stuck' THEN replace(array_to_string(present.reasons, ', '), '_', ' ')
            WHEN 'token_expiring' THEN
                format('%%s (%%s) expires at %%s UTC', present.owner, present.subject,
                       to_char(present.due_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI'))
            ELSE present.owner
        END,
        CASE present.kind
            WHEN 'stuck' THEN jsonb_build_object('reasons', present.reasons)
            WHEN 'token_expiring' THEN
                jsonb_build_object('name', present.owner, 'token', present.subject, 'expires_at', present.due_at)
            ELSE jsonb_build_object('part', present.subject)
        END
    FROM opened
    JOIN present ON present.kind = opened.kind AND present.space_id IS NOT DISTINCT FROM opened.space_id
        AND present.subject = opened.subject
    UNION ALL
    SELECT
        CASE closed.kind WHEN 'stuck' THEN 'stuck_cleared' ELSE 'system_recovered' END, space.team_id, closed.space_id,
        CASE WHEN closed.kind = 'stuck' THEN closed.subject END, closed.fencing_token,
        CASE WHEN closed.kind = 'stuck' THEN closed.owner END, NULL, 'system', 'system', 'task', NULL,
        jsonb_build_object('lasted_ms', octo_interval_ms(closed.closed_at - closed.opened_at))
            || CASE WHEN closed.kind = 'stuck' THEN '{}' ELSE jsonb_build_object('part', closed.subject) END
    FROM closed
    LEFT JOIN octo_space AS space ON space.id = closed.space_id
    WHERE closed.kind <> 'token_expiring'
)
SELECT (SELECT count(*) FROM opened) AS opened, (SELECT count(*) FROM closed) AS closed
