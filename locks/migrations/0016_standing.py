"""How each lock stands, in one place, for the pages that show it."""

from django.db import migrations

STANDING = """
-- A lease is over at its own expiry, or with the session it is tied to: `lives_until` (octo_lives_until says the same of one
-- lock; this is the join, for those who look at a hundred thousand). `whole_seconds` is the TTL of whichever ends it, and
-- `heard_at` the last heartbeat of either.
-- `trouble` is the state in the order of its urgency: 1 overdue, 2 expiring (less than 30 s and less than a third of its time
-- is left, so it has missed a renewal), 3 closed by its delay, 4 held, 5 free. The first comparison decides nearly every one.
CREATE VIEW octo_standing AS
SELECT
    *,
    CASE
        WHEN lives_until > statement_timestamp() + interval '30 seconds' THEN 4
        WHEN lives_until > statement_timestamp() + whole_seconds * interval '1 second' / 3 THEN 4
        WHEN lives_until > statement_timestamp() THEN 2
        WHEN coalesce(available_at, lives_until + lock_delay_seconds * interval '1 second') > statement_timestamp() THEN 3
        WHEN lease_id IS NOT NULL THEN 1
        ELSE 5
    END AS trouble
FROM (
    SELECT
        lock.id, lock.space_id, lock.name, lock.fencing_token, lock.lease_id, lock.token_id, lock.holder_id, lock.owner,
        lock.metadata, lock.acquired_at, lock.renewed_at, lock.renewals, lock.available_at, lock.lock_delay_seconds,
        lock.session_id, lock.tied_to,
        least(lock.expires_at, session.ended_at, session.expires_at) AS lives_until,
        greatest(lock.renewed_at, session.kept_alive_at) AS heard_at,
        CASE WHEN least(session.ended_at, session.expires_at) < lock.expires_at THEN session.ttl_seconds
             ELSE lock.ttl_seconds END AS whole_seconds
    FROM octo_lock AS lock
    LEFT JOIN octo_session AS session ON session.id = lock.tied_to
) AS lock;

CREATE FUNCTION octo_state(trouble int) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (ARRAY['overdue', 'expiring', 'delayed', 'held', 'free'])[trouble]
$$;
"""


class Migration(migrations.Migration):
    dependencies = [("locks", "0015_webhooks")]
    operations = [migrations.RunSQL(STANDING, "DROP FUNCTION octo_state; DROP VIEW octo_standing")]
