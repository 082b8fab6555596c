"""What a token may do right now, with the limits of its space, as every statement of the engine reads it."""

from django.db import migrations

SQL = """
CREATE VIEW octo_live_token AS
SELECT
    token.digest,
    token.id AS token_id,
    token.public_id,
    token.name AS token_name,
    token.scopes,
    token.prefixes,
    space.id AS space_id,
    space.team_id,
    space.default_ttl_seconds,
    space.max_ttl_seconds,
    space.max_hold_seconds,
    space.max_metadata_length,
    space.max_live_locks,
    space.recognises_metadata,
    space.requests_per_second,
    -- Counted once a second by the servers; an old count binds nobody.
    coalesce(usage.live_locks >= space.max_live_locks
             AND usage.counted_at > clock_timestamp() - interval '3 seconds', false) AS space_is_full
FROM octo_token AS token
JOIN octo_space AS space ON space.id = token.space_id
LEFT JOIN octo_space_usage AS usage ON usage.space_id = space.id
WHERE token.revoked_at IS NULL
  AND (token.expires_at IS NULL OR token.expires_at > clock_timestamp())
  AND space.archived_at IS NULL;

-- Whether a token with these prefixes may touch this name. Inlined by the planner.
CREATE FUNCTION octo_name_is_within(name text, prefixes text[]) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT cardinality(prefixes) = 0
        OR EXISTS (SELECT FROM unnest(prefixes) AS prefix WHERE starts_with(name, prefix))
$$;

-- A stable pseudonym of who holds: the same token (and session) always gives the same one.
CREATE FUNCTION octo_holder_id(public_id text, session_id uuid) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT 'h_' || left(encode(sha256(convert_to(public_id || coalesce(':' || session_id, ''), 'UTF8')), 'hex'), 20)
$$;

-- Strictly rising for a name even when its row was removed, a backup restored or a lagging replica promoted:
-- the clock leads, and the row's last token holds when the clock does not.
CREATE FUNCTION octo_next_fencing_token(previous bigint, now timestamptz) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT greatest(previous + 1, (extract(epoch FROM now) * 1000)::bigint)
$$;

-- Whether a key has its lease among these names already. Volatile on purpose: such a function sees what was committed
-- until it is called, and not only what the snapshot of its caller shows.
CREATE FUNCTION octo_key_is_live(space bigint, names json, token bigint, key bytea) RETURNS boolean
LANGUAGE sql VOLATILE AS $$
    SELECT EXISTS (
        SELECT FROM json_array_elements_text(names) AS wanted
        JOIN octo_lock AS lock ON lock.space_id = space AND lock.name = wanted
        WHERE lock.token_id = token AND lock.idempotency_digest = key AND lock.expires_at > clock_timestamp()
    )
$$;

CREATE FUNCTION octo_ms(duration interval) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (extract(epoch FROM duration) * 1000)::bigint
$$;
"""


class Migration(migrations.Migration):
    dependencies = [("locks", "0003_lock_storage")]
    operations = [migrations.RunSQL(SQL, migrations.RunSQL.noop)]
