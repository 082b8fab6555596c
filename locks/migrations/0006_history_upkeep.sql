-- What the history is asked for. Ordinary events (acquired, released) are so many that a scan in order of time soon
-- finds a page of them; the others need an index of their own, which costs the ordinary ones nothing.
CREATE INDEX event_of_kind ON octo_event (space_id, kind, at DESC, id DESC) WHERE kind NOT IN ('acquired', 'released');
CREATE INDEX event_of_owner ON octo_event (space_id, owner, at DESC, id DESC) WHERE owner IS NOT NULL;
CREATE INDEX event_of_token ON octo_event (token_id, at DESC, id DESC) WHERE token_id IS NOT NULL;
CREATE INDEX event_of_actor ON octo_event (space_id, actor_name, at DESC, id DESC);
CREATE INDEX event_of_request ON octo_event USING hash (request_id);

-- Makes the partition of a month if there is none, with what the default partition has of that month. Attaching
-- takes a weaker lock on the history than creating it in place would, so writers go on.
CREATE OR REPLACE FUNCTION octo_event_partition(month date) RETURNS text
LANGUAGE plpgsql SET lock_timeout = '100ms' SET timezone = 'UTC' AS $$
DECLARE
    first timestamptz := date_trunc('month', month::timestamp);
    beyond timestamptz := date_trunc('month', month::timestamp) + interval '1 month';
    partition text := 'octo_event_' || to_char(month, 'YYYY_MM');
BEGIN
    IF to_regclass(partition) IS NULL THEN
        EXECUTE format('CREATE TABLE %I (LIKE octo_event INCLUDING ALL)', partition);
        EXECUTE format(
            'CREATE TRIGGER event_is_not_truncated BEFORE TRUNCATE ON %I '
            'FOR EACH STATEMENT EXECUTE FUNCTION octo_event_is_append_only()', partition);
        LOCK TABLE octo_event_default IN SHARE ROW EXCLUSIVE MODE;
        IF EXISTS (SELECT FROM octo_event_default WHERE at >= first AND at < beyond) THEN
            ALTER TABLE octo_event_default DISABLE TRIGGER event_is_append_only;
            EXECUTE format(
                'WITH moved AS (DELETE FROM octo_event_default WHERE at >= %L AND at < %L RETURNING *) '
                'INSERT INTO %I SELECT * FROM moved', first, beyond, partition);
            ALTER TABLE octo_event_default ENABLE TRIGGER event_is_append_only;
        END IF;
        EXECUTE format(
            'ALTER TABLE octo_event ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', partition, first, beyond);
    END IF;
    RETURN partition;
END
$$;

-- The end of the history's oldest months: drops one partition that lies wholly before the given time and returns its
-- name, or null when there is none. One at a time, and given up rather than waited for: dropping needs the whole
-- history for a moment, and whoever comes after us waits as long as we do.
CREATE FUNCTION octo_event_drop_oldest(before timestamptz) RETURNS text
LANGUAGE plpgsql SET lock_timeout = '20ms' SET timezone = 'UTC' AS $$
DECLARE
    oldest text;
BEGIN
    SELECT child.relname INTO oldest
    FROM pg_inherits
    JOIN pg_class AS child ON child.oid = pg_inherits.inhrelid
    WHERE pg_inherits.inhparent = 'octo_event'::regclass
      AND child.relname ~ '^octo_event_\d{4}_\d{2}$'
      AND to_date(right(child.relname, 7), 'YYYY_MM') + interval '1 month' <= least(before, now())
    ORDER BY child.relname
    LIMIT 1;
    IF oldest IS NOT NULL THEN
        EXECUTE format('DROP TABLE %I', oldest);
    END IF;
    RETURN oldest;
END
$$;
