-- What is held and matches the board's filter, by name. Changes nothing. Parameters as in lock_list.sql; rows: the most.
SELECT name, fencing_token, owner
FROM octo_lock_state
WHERE space_id = %(space_id)s
  AND lease_id IS NOT NULL AND effective_expires_at > statement_timestamp()
  AND starts_with(name, %(prefix)s)
  AND (%(owner)s = '' OR owner = %(owner)s)
  AND (
    %(search)s = ''
    OR CASE WHEN %(plain)s
        THEN lower((name || E'\n' || coalesce(owner, '') || E'\n' || coalesce(metadata, '')) COLLATE "C")
            LIKE lower(%(pattern)s COLLATE "C")
        ELSE name ILIKE %(pattern)s OR owner ILIKE %(pattern)s OR metadata ILIKE %(pattern)s
    END
  )
ORDER BY name
LIMIT %(rows)s
