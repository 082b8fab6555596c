-- Removes sessions that ended long ago and hold nothing any more. $1 days
WITH forgotten AS MATERIALIZED (
    SELECT session.id
    FROM octo_session AS session
    WHERE coalesce(session.ended_at, session.expires_at) < statement_timestamp() - $1::int * interval '1 day'
      AND NOT EXISTS (SELECT FROM octo_lock AS lock WHERE lock.session_id = session.id)
    FOR UPDATE OF session SKIP LOCKED
)
DELETE FROM octo_session AS session USING forgotten WHERE session.id = forgotten.id
