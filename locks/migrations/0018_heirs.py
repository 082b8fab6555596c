"""Under which token a lease counts, in one place."""

from django.db import migrations

HEIR = """
-- Whose the leases of a token are: its own, or, once it was replaced and its overlap is over, those of its successor, which
-- renews them now.
CREATE FUNCTION octo_heir(token bigint) RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE COST 20 AS $$
    SELECT coalesce(
        CASE WHEN taker.superseded_at IS NOT NULL AND taker.revoked_at IS NULL
                  AND taker.expires_at <= statement_timestamp() THEN (
            SELECT later.id
            FROM octo_token AS later
            WHERE later.space_id = taker.space_id AND later.name = taker.name AND later.id > taker.id
              AND NOT (later.superseded_at IS NOT NULL AND later.revoked_at IS NULL
                       AND later.expires_at <= statement_timestamp())
            ORDER BY later.id
            LIMIT 1
        ) END,
        taker.id)
    FROM octo_token AS taker
    WHERE taker.id = token
$$;
"""


class Migration(migrations.Migration):
    dependencies = [("locks", "0017_names_that_are_taken")]
    operations = [migrations.RunSQL(HEIR, "DROP FUNCTION octo_heir")]
