CREATE SEQUENCE octo_event_id_seq AS bigint;

CREATE TABLE octo_event (
    id bigint NOT NULL DEFAULT nextval('octo_event_id_seq'),
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- The transaction that wrote the event. A reader that stops short of the oldest transaction still under
    -- way never passes one that commits late.
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
    overdue_ms bigint,
    detail jsonb,
    PRIMARY KEY (id, at)
) PARTITION BY RANGE (at);

ALTER SEQUENCE octo_event_id_seq OWNED BY octo_event.id;

CREATE INDEX event_of_space ON octo_event (space_id, at DESC, id DESC);
CREATE INDEX event_of_lock ON octo_event (space_id, lock_name, at DESC, id DESC) WHERE lock_name IS NOT NULL;
CREATE INDEX event_in_commit_order ON octo_event (txid, id);

-- Append-only for everybody, the owner of the table included. Row triggers reach every partition; truncate
-- has none, so each partition gets a trigger of its own.
CREATE FUNCTION octo_event_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit history is append-only: % refused', TG_OP USING ERRCODE = 'insufficient_privilege';
END
$$;

CREATE TRIGGER event_is_append_only BEFORE UPDATE OR DELETE ON octo_event
    FOR EACH ROW EXECUTE FUNCTION octo_event_is_append_only();
CREATE TRIGGER event_is_not_truncated BEFORE TRUNCATE ON octo_event
    FOR EACH STATEMENT EXECUTE FUNCTION octo_event_is_append_only();

-- Makes the partition of a month if there is none. Attaching takes a weaker lock on the history than creating
-- it in place would, so writers go on.
CREATE FUNCTION octo_event_partition(month date) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    first date := date_trunc('month', month)::date;
    partition text := 'octo_event_' || to_char(month, 'YYYY_MM');
BEGIN
    IF to_regclass(partition) IS NULL THEN
        EXECUTE format('CREATE TABLE %I (LIKE octo_event INCLUDING ALL)', partition);
        EXECUTE format(
            'CREATE TRIGGER event_is_not_truncated BEFORE TRUNCATE ON %I '
            'FOR EACH STATEMENT EXECUTE FUNCTION octo_event_is_append_only()', partition);
        EXECUTE format(
            'ALTER TABLE octo_event ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', partition,
            first::timestamp AT TIME ZONE 'UTC', (first + interval '1 month') AT TIME ZONE 'UTC');
    END IF;
    RETURN partition;
END
$$;

-- Catches what no month covers, so that a retention task that has not run for long never stops an acquire.
CREATE TABLE octo_event_default PARTITION OF octo_event DEFAULT;
CREATE TRIGGER event_is_not_truncated BEFORE TRUNCATE ON octo_event_default
    FOR EACH STATEMENT EXECUTE FUNCTION octo_event_is_append_only();

SELECT octo_event_partition((date_trunc('month', now()) + step * interval '1 month')::date)
FROM generate_series(0, 2) AS step;
