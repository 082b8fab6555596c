-- The active locks of a space (held, or in their cooldown) that match a filter; '' matches all. Inlined by the planner, so
-- callers pay only for the columns they use.
--
-- An ASCII search folds one text per lock, which takes a quarter less time than three comparisons that know the language.
CREATE FUNCTION octo_find_locks(in_space bigint, prefix text, of_owner text, search text)
RETURNS TABLE (id bigint, name text, fencing_token bigint, owner text, acquired_at timestamptz, ends_at timestamptz, severity int)
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT lock.id, lock.name, lock.fencing_token, lock.owner, lock.acquired_at, lock.ends_at, lock.severity
    FROM (
        SELECT id, name, fencing_token, owner, metadata, acquired_at, effective_expires_at AS ends_at, severity
        FROM octo_lock_state
        WHERE space_id = in_space AND lease_id IS NOT NULL
        UNION ALL
        SELECT id, name, fencing_token, owner, metadata, acquired_at, available_at, 3
        FROM octo_lock
        WHERE space_id = in_space AND lease_id IS NULL AND available_at > statement_timestamp()
    ) AS lock
    WHERE starts_with(lock.name, prefix)
      AND (of_owner = '' OR lock.owner = of_owner)
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
