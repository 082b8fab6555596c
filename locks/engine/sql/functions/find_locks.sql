-- The active locks of a space (held, or in their cooldown) that match a filter; '' matches all. Inlined by the planner, so
-- callers pay only for the columns they use. `in_state` is a state, where `held` includes what is expiring, as the counters do,
-- or `waiting`: locks with waiters.
--
-- An ASCII search folds one text per lock, which takes a quarter less time than three comparisons that know the language.
CREATE FUNCTION octo_find_locks_v2(in_space bigint, prefix text, of_owner text, search text, in_state text DEFAULT '')
RETURNS TABLE (
    id bigint, name text, fencing_token bigint, owner text, acquired_at timestamptz, ends_at timestamptz,
    last_heartbeat_at timestamptz, severity int
)
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT
        lock.id, lock.name, lock.fencing_token, lock.owner, lock.acquired_at, lock.ends_at, lock.last_heartbeat_at,
        lock.severity
    FROM (
        SELECT id, name, fencing_token, owner, metadata, acquired_at, effective_expires_at AS ends_at,
               last_heartbeat_at, severity
        FROM octo_lock_state_v2
        WHERE space_id = in_space AND lease_id IS NOT NULL
        UNION ALL
        SELECT id, name, fencing_token, owner, metadata, acquired_at, available_at, renewed_at, 3
        FROM octo_lock
        WHERE space_id = in_space AND lease_id IS NULL AND available_at > statement_timestamp()
    ) AS lock
    WHERE starts_with(lock.name, prefix)
      AND (of_owner = '' OR lock.owner = of_owner)
      AND CASE in_state
        WHEN 'held' THEN lock.severity IN (2, 4)
        WHEN 'expiring' THEN lock.severity = 2
        WHEN 'overdue' THEN lock.severity = 1
        WHEN 'cooldown' THEN lock.severity = 3
        WHEN 'waiting' THEN lock.name IN (SELECT waiter.name FROM octo_queued_waiter AS waiter WHERE waiter.space_id = in_space)
        ELSE true
      END
      AND (
        search = ''
        OR CASE WHEN octet_length(search) = length(search)
            THEN lower((lock.name || E'\n' || coalesce(lock.owner, '') || E'\n' || coalesce(lock.metadata, '')) COLLATE "C")
                LIKE lower(octo_contains_pattern(search) COLLATE "C")
            ELSE lock.name ILIKE octo_contains_pattern(search) OR lock.owner ILIKE octo_contains_pattern(search)
                OR lock.metadata ILIKE octo_contains_pattern(search)
        END
      )
$$;

-- By what a list of locks is sorted, unless by severity: smallest first, then by name. Callers count waiters only if the list is
-- sorted by them, outside of this function: with a subquery in it, it would not be inlined.
CREATE FUNCTION octo_sort_moment(
    sort text, ends_at timestamptz, acquired_at timestamptz, last_heartbeat_at timestamptz, waiters bigint
) RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT CASE sort
        WHEN 'left' THEN ends_at
        WHEN 'most_left' THEN to_timestamp(-date_part('epoch', ends_at))
        WHEN 'oldest' THEN acquired_at
        WHEN 'newest' THEN to_timestamp(-date_part('epoch', acquired_at))
        WHEN 'quiet' THEN last_heartbeat_at
        WHEN 'queue' THEN to_timestamp(-waiters)
    END
$$;
