-- Namespaces: names whose beginning up to the first colon is in the space's table see each other, by the rule of the table.
-- All other names are plain, and nothing here is evaluated for them.
--
-- The guard. A statement that grants a name of a namespace first takes the guard of the space: an advisory lock that lasts
-- until its commit, shared for `exact` names (which can overlap only with names of the other rules), exclusive for `tree`
-- and `all`. Then octo_conflict looks for overlapping leases with a snapshot of its own, since it is volatile, taken after
-- the guard. So of two overlapping requests one sees the lease of the other, on whatever server.
--
-- Why a lease that only seems to be over cannot come back. A renewal in progress may have read the clock before the expiry
-- and commit after it. So an overlapping lock blocks as long as its row has a lease, live or not: a lease that is over is
-- first ended by end_and_hand_over.sql, which waits for the renewal on the locked row.
--
-- Lock order: the guard comes before all rows. A statement that may wait for a guard takes only one (`is_alone`); a batch
-- only tries, and its requests get `unguarded` and run alone if that fails. Names of rule `tree` and `all` always run alone,
-- because the requests of a batch do not see each other's leases.

-- The namespace of a name with its colon, or '' if it has none.
CREATE FUNCTION octo_namespace(name text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT left(name, strpos(name, ':'))
$$;

-- The names that overlap with a name, as ranges in the collation "C" from `low` to before `high`. Names have no character
-- below the blank, so the range from a name to the name with a blank is that name only; ';' follows ':' and '0' follows '/'.
-- A lease in a range that `covers` protects the whole name: the same name, an ancestor, or one of rule `all`.
CREATE FUNCTION octo_overlapping_ranges(namespaces jsonb, name text) RETURNS TABLE (low text, high text, covers boolean)
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT overlapping.*
    FROM (
        SELECT octo_namespace(octo_overlapping_ranges.name) AS namespace,
               namespaces ->> octo_namespace(octo_overlapping_ranges.name) AS rule
    ) AS own
    CROSS JOIN LATERAL (
        SELECT octo_overlapping_ranges.name, octo_overlapping_ranges.name || ' ', true WHERE rule = 'exact' OR rule IS NULL
        UNION ALL
        SELECT ancestor.name, ancestor.name || ' ', true
        FROM string_to_array(substr(octo_overlapping_ranges.name, length(namespace) + 1), '/') AS path (segments)
        CROSS JOIN generate_series(0, cardinality(path.segments)) AS depth
        CROSS JOIN LATERAL (SELECT namespace || array_to_string(path.segments[1:depth], '/') AS name) AS ancestor
        WHERE rule = 'tree'
        UNION ALL
        SELECT octo_overlapping_ranges.name || '/', octo_overlapping_ranges.name || '0', false
        WHERE rule = 'tree' AND octo_overlapping_ranges.name <> namespace
        UNION ALL
        -- Every name of a namespace: of those of rule `all`, of all if this name is of that rule, of its own for a root.
        SELECT other.namespace, left(other.namespace, -1) || ';', other.rule = 'all'
        FROM jsonb_each_text(namespaces) AS other (namespace, rule)
        WHERE own.rule IS NOT NULL
          AND (other.rule = 'all' OR own.rule = 'all' OR octo_overlapping_ranges.name = other.namespace AND own.rule = 'tree')
    ) AS overlapping (low, high, covers)
$$;

-- The requests that wait in a space and can be handed a lock, by the rules of octo_hand_to_first_waiter. Those that wait for a
-- frozen name keep their places, but overlap with none: names that are not frozen need not wait for the end of the freeze.
CREATE FUNCTION octo_present_waiters(space bigint) RETURNS SETOF octo_waiter LANGUAGE sql STABLE AS $$
    SELECT waiter.*
    FROM octo_waiter AS waiter
    JOIN octo_token AS token ON token.id = waiter.token_id
    JOIN octo_space AS space ON space.id = waiter.space_id
    WHERE waiter.space_id = octo_present_waiters.space
      AND waiter.handed_lease_id IS NULL
      AND waiter.deadline_at > clock_timestamp()
      AND greatest(waiter.enqueued_at, (
          SELECT server.last_heartbeat_at FROM octo_server_process AS server WHERE server.id = waiter.server_id
      )) > clock_timestamp() - interval '900 milliseconds'
      AND octo_token_is_valid(token.revoked_at, token.expires_at, space.archived_at, clock_timestamp())
      AND 'locks:write' = ANY (token.scopes)
      AND NOT token.is_draining
      AND octo_name_matches_prefixes(waiter.name, token.prefixes)
      AND octo_acl_allows((
          SELECT lock.acl FROM octo_lock AS lock WHERE lock.space_id = waiter.space_id AND lock.name = waiter.name
      ), waiter.token_id)
      AND (waiter.session_id IS NULL OR octo_session_ends_at(waiter.session_id) > clock_timestamp())
      AND octo_freeze_of(space.id, space.frozen_until, waiter.name) IS NULL
$$;

-- The locks in these ranges that are not free: with a lease, live or not, or in their cooldown. `ends_at` is the end of the
-- lease, null in a cooldown.
CREATE FUNCTION octo_closed_locks(space bigint, lows text[], highs text[]) RETURNS TABLE (
    id bigint, name text, lease_id uuid, owner text, metadata text, holder_id text, fencing_token bigint,
    acquired_at timestamptz, ends_at timestamptz, available_at timestamptz
) LANGUAGE sql STABLE AS $$
    SELECT
        lock.id, lock.name, lock.lease_id, lock.owner, lock.metadata, lock.holder_id, lock.fencing_token, lock.acquired_at,
        octo_effective_expiry(lock.expires_at, lock.bound_session_id), NULL::timestamptz
    FROM unnest(lows, highs) AS range (low, high)
    JOIN octo_lock AS lock
        ON lock.space_id = octo_closed_locks.space AND lock.lease_id IS NOT NULL
        AND lock.name >= range.low COLLATE "C" AND lock.name < range.high COLLATE "C"
    UNION
    SELECT lock.id, lock.name, NULL, NULL, NULL, NULL, lock.fencing_token, NULL, NULL, lock.available_at
    FROM octo_lock AS lock
    JOIN unnest(lows, highs) AS range (low, high)
        ON lock.name >= range.low COLLATE "C" AND lock.name < range.high COLLATE "C"
    WHERE lock.space_id = octo_closed_locks.space AND lock.lease_id IS NULL AND lock.available_at > clock_timestamp()
$$;

CREATE FUNCTION octo_take_guard(space bigint, is_exact boolean, is_alone boolean) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    guard CONSTANT bigint := hashtextextended('octo_namespaces ' || space, 0);
BEGIN
    IF NOT is_alone THEN
        RETURN is_exact AND pg_try_advisory_xact_lock_shared(guard);
    ELSIF is_exact THEN
        PERFORM pg_advisory_xact_lock_shared(guard);
    ELSE
        PERFORM pg_advisory_xact_lock(guard);
    END IF;
    RETURN true;
END
$$;

-- The part of octo_conflict about locks: those in the ranges, apart from the names asked for themselves.
CREATE FUNCTION octo_blockers(space bigint, lows text[], highs text[], names text[], handed_lease_id uuid)
RETURNS jsonb LANGUAGE sql VOLATILE AS $$
    SELECT jsonb_build_object(
        'verdict', CASE WHEN bool_or(is_live) THEN 'held'
                        WHEN bool_or(lease_id IS NOT NULL) THEN 'needs_handover' ELSE 'delayed' END,
        'available_at', max(available_at),
        'blocked_by', coalesce(jsonb_agg(
            jsonb_build_object(
                'name', name, 'owner', owner, 'metadata', metadata, 'holder_id', holder_id, 'fencing_token', fencing_token,
                'acquired_at', acquired_at, 'expires_at', ends_at)
            ORDER BY nth) FILTER (WHERE is_live AND nth <= 100), '[]'))
    FROM (
        SELECT lock.*, lock.ends_at > clock_timestamp() IS TRUE AS is_live,
               row_number() OVER (ORDER BY lock.ends_at > clock_timestamp() IS TRUE DESC, lock.acquired_at, lock.id) AS nth
        FROM octo_closed_locks(octo_blockers.space, lows, highs) AS lock
        WHERE lock.name <> ALL (names) AND coalesce(lock.lease_id <> octo_blockers.handed_lease_id, true)
    ) AS closed
    HAVING count(*) > 0
$$;

-- Why names of a namespace cannot be acquired now, apart from the state of these names' own locks; null if nothing overlaps.
-- Takes the guard. `blocked_by` are the leases that overlap, at most 100; if only earlier waiters overlap, the leases that
-- these wait for. The `verdict` is:
--   unguarded       not decided: the request has to run alone
--   names_overlap   two of the names overlap with each other
--   held            live leases overlap, or block an earlier waiter that overlaps
--   delayed         no lease does, but a lock in its cooldown, until `available_at`
--   needs_handover  leases that overlap are over but not ended, or an earlier waiter can be handed its lock
--
-- `handed_lease_id` is a lease that the request has been handed already. All waiters are earlier than the request.
CREATE FUNCTION octo_conflict(
    space bigint, namespaces jsonb, names text[], is_alone boolean,
    handed_lease_id uuid DEFAULT NULL
) RETURNS jsonb LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    guarded CONSTANT text[] := ARRAY(SELECT name FROM unnest(names) AS name WHERE namespaces ? octo_namespace(name));
    lows text[];
    highs text[];
    conflict jsonb;
BEGIN
    IF cardinality(guarded) = 0 THEN
        RETURN NULL;
    END IF;
    IF NOT octo_take_guard(
        space, (SELECT bool_and(namespaces ->> octo_namespace(name) = 'exact') FROM unnest(guarded) AS name), is_alone)
    THEN
        RETURN '{"verdict": "unguarded"}';
    END IF;
    SELECT array_agg(range.low), array_agg(range.high) INTO lows, highs
    FROM unnest(guarded) AS name CROSS JOIN octo_overlapping_ranges(namespaces, name) AS range;
    IF cardinality(guarded) > 1 AND EXISTS (
        SELECT FROM unnest(guarded) AS first
        CROSS JOIN octo_overlapping_ranges(namespaces, first) AS range
        JOIN unnest(guarded) AS second ON second <> first
            AND second COLLATE "C" >= range.low COLLATE "C" AND second COLLATE "C" < range.high COLLATE "C"
    ) THEN
        RETURN '{"verdict": "names_overlap"}';
    END IF;
    conflict := octo_blockers(space, lows, highs, names, handed_lease_id);
    IF conflict IS NOT NULL THEN
        RETURN conflict;
    END IF;
    IF NOT EXISTS (
        SELECT FROM unnest(lows, highs) AS range (low, high)
        JOIN octo_present_waiters(octo_conflict.space) AS waiter
            ON waiter.name >= range.low COLLATE "C" AND waiter.name < range.high COLLATE "C"
    ) THEN
        RETURN NULL;
    END IF;
    -- The earlier waiters that overlap, those that these wait for, and so on.
    WITH RECURSIVE waiter AS MATERIALIZED (
        SELECT present.id, present.name, present.queue_seq
        FROM octo_present_waiters(octo_conflict.space) AS present
        WHERE namespaces ? octo_namespace(present.name)
    ),
    ahead AS (
        SELECT waiter.*
        FROM unnest(lows, highs) AS range (low, high)
        JOIN waiter ON waiter.name >= range.low COLLATE "C" AND waiter.name < range.high COLLATE "C"
        UNION
        SELECT waiter.*
        FROM ahead
        CROSS JOIN LATERAL octo_overlapping_ranges(namespaces, ahead.name) AS range
        JOIN waiter ON waiter.name >= range.low COLLATE "C" AND waiter.name < range.high COLLATE "C"
            AND (waiter.queue_seq, waiter.id) < (ahead.queue_seq, ahead.id)
    )
    SELECT array_agg(range.low), array_agg(range.high) INTO lows, highs
    FROM (SELECT DISTINCT name FROM ahead) AS ahead
    CROSS JOIN LATERAL octo_overlapping_ranges(namespaces, ahead.name) AS range;
    RETURN coalesce(
        octo_blockers(space, lows, highs, '{}', NULL), '{"verdict": "needs_handover", "blocked_by": []}');
END
$$;

-- `blocked_by` as a token with these prefixes may read it: of a name outside them, only that it is held, and until when.
CREATE FUNCTION octo_readable_leases(blocked_by jsonb, prefixes text[]) RETURNS jsonb LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN blocked_by IS NULL OR cardinality(prefixes) = 0 THEN blocked_by ELSE (
        SELECT coalesce(jsonb_agg(
            CASE WHEN octo_name_matches_prefixes(lease ->> 'name', prefixes) THEN lease
                 ELSE lease || '{"owner": "", "metadata": null}' END
            ORDER BY index), '[]')
        FROM jsonb_array_elements(blocked_by) WITH ORDINALITY AS blocking (lease, index)
    ) END
$$;

-- Of these names, those that cannot be acquired now because another name overlaps: `held`, or `needs_handover` if a lease
-- that overlaps is over but not ended. Takes the guard.
CREATE FUNCTION octo_blocked_names(space bigint, namespaces jsonb, names text[]) RETURNS jsonb LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    guarded CONSTANT text[] := ARRAY(SELECT name FROM unnest(names) AS name WHERE namespaces ? octo_namespace(name));
BEGIN
    IF cardinality(guarded) = 0 THEN
        RETURN NULL;
    END IF;
    PERFORM octo_take_guard(
        space, (SELECT bool_and(namespaces ->> octo_namespace(name) = 'exact') FROM unnest(guarded) AS name), true);
    RETURN (
        SELECT jsonb_object_agg(blocked.name, blocked.verdict)
        FROM (
            SELECT
                requested.name,
                CASE
                    WHEN bool_or(coalesce(lock.ends_at, lock.available_at) > clock_timestamp()) THEN 'held'
                    WHEN count(lock.id) > 0 THEN 'needs_handover'
                    ELSE 'held'
                END AS verdict
            FROM unnest(guarded) AS requested (name)
            CROSS JOIN LATERAL (
                SELECT array_agg(low) AS lows, array_agg(high) AS highs
                FROM octo_overlapping_ranges(namespaces, requested.name)
            ) AS range
            LEFT JOIN LATERAL octo_closed_locks(octo_blocked_names.space, range.lows, range.highs) AS lock
                ON lock.name <> requested.name
            WHERE lock.id IS NOT NULL OR EXISTS (
                SELECT FROM unnest(range.lows, range.highs) AS overlapping (low, high)
                JOIN octo_present_waiters(octo_blocked_names.space) AS waiter
                    ON waiter.name >= overlapping.low COLLATE "C" AND waiter.name < overlapping.high COLLATE "C"
            )
            GROUP BY requested.name
        ) AS blocked
    );
END
$$;

-- The first waiter of a name, if it is its turn: no lock that overlaps is held or in its cooldown, apart from that of the
-- name itself, and no earlier waiter overlaps. Takes the guard, alone.
CREATE FUNCTION octo_next_waiter(space bigint, namespaces jsonb, requested text) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    lows text[];
    highs text[];
    first record;
BEGIN
    PERFORM octo_take_guard(space, false, true);
    SELECT waiter.id, waiter.queue_seq INTO first
    FROM octo_present_waiters(octo_next_waiter.space) AS waiter
    WHERE waiter.name = requested
    ORDER BY waiter.queue_seq, waiter.id
    LIMIT 1;
    SELECT array_agg(low), array_agg(high) INTO lows, highs FROM octo_overlapping_ranges(namespaces, requested);
    IF first.id IS NULL OR EXISTS (
        SELECT FROM octo_closed_locks(octo_next_waiter.space, lows, highs) AS lock WHERE lock.name <> requested
    ) OR EXISTS (
        SELECT FROM unnest(lows, highs) AS range (low, high)
        JOIN octo_present_waiters(octo_next_waiter.space) AS waiter
            ON waiter.name >= range.low COLLATE "C" AND waiter.name < range.high COLLATE "C"
            AND (waiter.queue_seq, waiter.id) < (first.queue_seq, first.id)
    ) THEN
        RETURN NULL;
    END IF;
    RETURN first.id;
END
$$;
