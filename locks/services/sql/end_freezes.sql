-- Records the end of freezes whose time is over; one row for each. SKIP LOCKED: one that is being lifted has its event from that.
WITH over AS MATERIALIZED (
    SELECT id FROM octo_freeze WHERE ended_at IS NULL AND until <= statement_timestamp() FOR UPDATE SKIP LOCKED
),
ended AS (
    UPDATE octo_freeze AS entry SET ended_at = entry.until FROM over WHERE entry.id = over.id RETURNING entry.*
)
INSERT INTO octo_event (at, kind, team_id, space_id, actor_kind, actor_name, channel, reason, recorded_late_ms, detail)
SELECT
    clock_timestamp(), 'unfrozen', space.team_id, space.id, 'system', 'expiry', 'task', ended.reason,
    octo_interval_ms(clock_timestamp() - ended.until),
    jsonb_build_object('freeze', ended.id, 'prefix', ended.prefix, 'until', ended.until)
FROM ended
JOIN octo_space AS space ON space.id = ended.space_id
RETURNING id
