-- Deletes sessions that ended long ago and hold no lock. $1 days
WITH old AS MATERIALIZED (
    SELECT session.id
    FROM octo_session AS session
    WHERE coalesce(session.ended_at, session.expires_at) < statement_timestamp() - $1::int * interval '1 day'
      AND NOT EXISTS (SELECT FROM octo_lock AS lock WHERE lock.session_id = session.id)
    FOR UPDATE OF session SKIP LOCKED
)
DELETE FROM octo_session AS session USING old WHERE session.id = old.id
