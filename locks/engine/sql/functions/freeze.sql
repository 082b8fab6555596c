-- Freezes: an operator closes the names that start with a prefix ('' for all of a space) to new claims, until a time.
--
-- What obeys them: octo_lock_snapshot_v2, which all claims read, end_and_hand_over.sql, which hands locks over, and the queue's
-- own searches (free_names_with_waiters.sql, octo_present_waiters, enqueue.sql). A frozen name that is free is `delayed`, as in
-- a cooldown that ends with the freeze. Leases that are held are renewed, released and recognised as before.
--
-- A statement obeys the freezes that were committed when it began. One that was running then may still grant a lease, so
-- locks/services/freezes.py waits for those before it answers: after that no new lease is granted.
--
-- `frozen_until` of a space is the latest end of its freezes. It is read with the limits of the space, so a claim in a space
-- without a freeze pays one comparison and does not look for any.

-- Of the freezes of a name, the one that ends last.
CREATE FUNCTION octo_active_freeze(space bigint, name text) RETURNS jsonb LANGUAGE sql STABLE PARALLEL SAFE COST 50 AS $$
    SELECT jsonb_build_object('prefix', entry.prefix, 'reason', entry.reason, 'until', entry.until)
    FROM octo_freeze AS entry
    WHERE entry.space_id = octo_active_freeze.space AND entry.ended_at IS NULL AND entry.until > clock_timestamp()
      AND octo_active_freeze.name ^@ entry.prefix
    ORDER BY entry.until DESC
    LIMIT 1
$$;

-- The same; null if the name is not frozen. Inlined, which clock_timestamp() would prevent: the statement began earlier, so the
-- comparison only decides whether to look.
CREATE FUNCTION octo_freeze_of(space bigint, frozen_until timestamptz, name text) RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN frozen_until > statement_timestamp() THEN octo_active_freeze(space, name) END
$$;

-- When a free name can be acquired: after its cooldown and its freeze.
CREATE FUNCTION octo_open_at(available_at timestamptz, active_freeze jsonb) RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT greatest(available_at, (active_freeze ->> 'until')::timestamptz)
$$;
