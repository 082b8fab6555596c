CREATE SEQUENCE octo_event_id_seq AS bigint;

-- The position of an event for readers in commit order: not before the transaction that writes it, and behind every
-- transaction that had ended when it was written. A transaction gets its id with the first row that it locks; another one
-- with a higher id may change a later row and commit before that row is locked here. The event about that row must come
-- after it, and by the transaction id alone it would not. A snapshot's xmax is at most one past the latest transaction that
-- has ended, so a position is never in the future, nor below the writer's own id: readers wait for it.
-- PL/pgSQL, because an inlined SQL function would use the snapshot of its statement, taken before the rows were locked.
CREATE FUNCTION octo_event_position() RETURNS xid8 LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN greatest(
        pg_current_xact_id(), (pg_snapshot_xmax(pg_current_snapshot())::text::bigint - 1)::text::xid8);
END
$$;

CREATE TABLE octo_event (
    id bigint NOT NULL DEFAULT nextval('octo_event_id_seq'),
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Readers stop before the oldest transaction that is still running, so they never pass an event that commits late.
    commit_position xid8 NOT NULL DEFAULT octo_event_position(),
    txid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    kind text NOT NULL,
    team_id bigint,
    space_id bigint,
    lock_name text COLLATE "C",
    fencing_token bigint,
    owner text,
    holder_id text,
    metadata text,
    token_id bigint,
    actor_kind text NOT NULL CHECK (actor_kind IN ('token', 'user', 'system')),
    actor_id bigint,
    actor_name text NOT NULL,
    channel text NOT NULL CHECK (channel IN ('api', 'web', 'cli', 'task')),
    address inet,
    request_id text,
    reason text,
    held_ms bigint,
    recorded_late_ms bigint,
    detail jsonb,
    PRIMARY KEY (id, at)
) PARTITION BY RANGE (at);

ALTER SEQUENCE octo_event_id_seq OWNED BY octo_event.id;

-- Keys ascend, so that each index grows at the end of its group and its pages stay full; pages of the history read backward.
CREATE INDEX event_of_space ON octo_event (space_id, at, id);
CREATE INDEX event_of_lock ON octo_event (space_id, lock_name, at, id) WHERE lock_name IS NOT NULL;
CREATE INDEX event_in_commit_order ON octo_event (commit_position, id);
-- Acts of people in a team. Events of locks are not in it.
CREATE INDEX event_of_team ON octo_event (team_id, at, id) WHERE lock_name IS NULL AND team_id IS NOT NULL;
-- Rare kinds. A scan in order of time soon finds a page of the frequent ones (acquired, released), so they are left out.
CREATE INDEX event_of_kind ON octo_event (space_id, kind, at, id) WHERE kind NOT IN ('acquired', 'released');

-- For the filters by owner, token and actor: one GIN index instead of three B-trees. An insert appends to its pending list,
-- which costs a third of what the B-trees did; the insert that fills the list merges it, in 10 to 20 ms. Hashes of owner and actor are salted with the space, so the planner knows how frequent a value is in this space.
-- They can collide: a query also compares the column itself.
CREATE FUNCTION octo_event_terms(space_id bigint, owner text, token_id bigint, actor_name text) RETURNS bigint[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN ARRAY[hashtextextended(owner, space_id), token_id, hashtextextended(actor_name, -space_id)];

CREATE INDEX event_of_terms ON octo_event USING gin (octo_event_terms(space_id, owner, token_id, actor_name))
    WITH (gin_pending_list_limit = 2048);
-- Request ids are unique and looked up rarely: a Bloom filter for each eight pages finds one in a few milliseconds, and
-- inserts cost next to nothing: autovacuum makes the filters.
CREATE INDEX event_of_request ON octo_event USING brin (request_id text_bloom_ops (n_distinct_per_range = 500))
    WITH (pages_per_range = 8, autosummarize = on);

-- Append-only for every role, the owner of the table included. Row triggers reach every partition; TRUNCATE triggers do
-- not, so each partition gets its own.
CREATE FUNCTION octo_event_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit history is append-only: % refused', TG_OP USING ERRCODE = 'insufficient_privilege';
END
$$;

CREATE TRIGGER event_is_append_only BEFORE UPDATE OR DELETE ON octo_event
    FOR EACH ROW EXECUTE FUNCTION octo_event_is_append_only();
CREATE TRIGGER event_is_not_truncated BEFORE TRUNCATE ON octo_event
    FOR EACH STATEMENT EXECUTE FUNCTION octo_event_is_append_only();

-- Events of a month without a partition go here, so that a retention task that has not run for long never stops an acquire.
CREATE TABLE octo_event_default PARTITION OF octo_event DEFAULT;
CREATE TRIGGER event_is_not_truncated BEFORE TRUNCATE ON octo_event_default
    FOR EACH STATEMENT EXECUTE FUNCTION octo_event_is_append_only();

-- The monthly partitions: the name of each, and when its month begins.
CREATE VIEW octo_event_month AS
SELECT child.relname AS name, to_date(right(child.relname, 7), 'YYYY_MM')::timestamp AT TIME ZONE 'UTC' AS month
FROM pg_inherits
JOIN pg_class AS child ON child.oid = pg_inherits.inhrelid
WHERE pg_inherits.inhparent = 'octo_event'::regclass AND child.relname ~ '^octo_event_\d{4}_\d{2}$';

-- Creates the partition of a month unless it exists, and moves that month's events from the default partition to it.
-- Attaching takes a weaker lock on the history than creating the partition in place, so writers are not blocked.
CREATE FUNCTION octo_event_partition(month date) RETURNS text
LANGUAGE plpgsql SET lock_timeout = '100ms' SET timezone = 'UTC' AS $$
DECLARE
    month_start timestamptz := date_trunc('month', month::timestamp);
    month_end timestamptz := date_trunc('month', month::timestamp) + interval '1 month';
    partition text := 'octo_event_' || to_char(month, 'YYYY_MM');
BEGIN
    IF to_regclass(partition) IS NULL THEN
        EXECUTE format('CREATE TABLE %I (LIKE octo_event INCLUDING ALL)', partition);
        EXECUTE format(
            'CREATE TRIGGER event_is_not_truncated BEFORE TRUNCATE ON %I '
            'FOR EACH STATEMENT EXECUTE FUNCTION octo_event_is_append_only()', partition);
        LOCK TABLE octo_event_default IN SHARE ROW EXCLUSIVE MODE;
        IF EXISTS (SELECT FROM octo_event_default WHERE at >= month_start AND at < month_end) THEN
            ALTER TABLE octo_event_default DISABLE TRIGGER event_is_append_only;
            EXECUTE format(
                'WITH moved AS (DELETE FROM octo_event_default WHERE at >= %L AND at < %L RETURNING *) '
                'INSERT INTO %I SELECT * FROM moved', month_start, month_end, partition);
            ALTER TABLE octo_event_default ENABLE TRIGGER event_is_append_only;
        END IF;
        EXECUTE format(
            'ALTER TABLE octo_event ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', partition, month_start, month_end);
    END IF;
    RETURN partition;
END
$$;

-- Drops the oldest partition that ends before the given time and returns its name, or null when there is none. One per
-- call and with a short lock timeout: dropping locks the whole history, and statements queue behind the attempt.
CREATE FUNCTION octo_event_drop_oldest(before timestamptz) RETURNS text
LANGUAGE plpgsql SET lock_timeout = '20ms' SET timezone = 'UTC' AS $$
DECLARE
    oldest text;
BEGIN
    SELECT name INTO oldest FROM octo_event_month
    WHERE month + interval '1 month' <= least(before, now())
    ORDER BY month
    LIMIT 1;
    IF oldest IS NOT NULL THEN
        EXECUTE format('DROP TABLE %I', oldest);
    END IF;
    RETURN oldest;
END
$$;

SELECT octo_event_partition((date_trunc('month', now()) + step * interval '1 month')::date)
FROM generate_series(0, 2) AS step;
