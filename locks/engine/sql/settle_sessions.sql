-- Notes that nothing is left to do for sessions that are over, once no lock is tied to them; records those that ran out.
-- One row: how many. $1 is an array of session ids.
WITH over AS MATERIALIZED (
    SELECT session.*
    FROM octo_session AS session
    WHERE session.id = ANY ($1::uuid[])
      AND session.sweep_at IS NOT NULL
      AND NOT EXISTS (SELECT FROM octo_lock AS lock WHERE lock.session_id = session.id AND lock.tied_to IS NOT NULL)
    ORDER BY session.id
    FOR NO KEY UPDATE SKIP LOCKED
),
cleared AS (
    UPDATE octo_session AS session SET sweep_at = NULL FROM over WHERE session.id = over.id
),
recorded AS (
    INSERT INTO octo_event (
        kind, team_id, space_id, owner, metadata, token_id, actor_kind, actor_name, channel, held_ms, overdue_ms, detail
    )
    SELECT
        'session_expired', space.team_id, over.space_id, over.owner, over.metadata, over.token_id, 'system', 'expiry',
        'task', octo_ms(over.expires_at - over.created_at), octo_ms(clock_timestamp() - over.expires_at),
        jsonb_build_object('session_id', over.id)
    FROM over
    JOIN octo_space AS space ON space.id = over.space_id
    WHERE over.ended_at IS NULL
)
SELECT count(*)::int FROM over
