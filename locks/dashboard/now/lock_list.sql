-- A page of what is held or closed in a space. Changes nothing.
--
-- space_id, prefix, owner, search and pattern ('' for all), plain (the search is ASCII), sort, rows, skipped. There may be
-- a hundred thousand: a plain search folds one text for each lock in a quarter less time than three comparisons that mind
-- the language.
WITH lock AS (
    SELECT id, name, owner, metadata, acquired_at, effective_expires_at AS ends_at, severity
    FROM octo_lock_state
    WHERE space_id = %(space_id)s AND lease_id IS NOT NULL
    UNION ALL
    SELECT id, name, owner, metadata, acquired_at, available_at, 3
    FROM octo_lock
    WHERE space_id = %(space_id)s AND lease_id IS NULL AND available_at > statement_timestamp()
),
page AS (
    SELECT id, severity, row_number() OVER () AS place
    FROM (
        SELECT
            id, severity,
            CASE WHEN %(sort)s = 'trouble' THEN severity ELSE 0 END AS rank,
            CASE %(sort)s
                WHEN 'trouble' THEN CASE WHEN severity < 4 THEN ends_at ELSE acquired_at END
                WHEN 'left' THEN ends_at
                WHEN 'oldest' THEN acquired_at
                WHEN 'newest' THEN to_timestamp(-date_part('epoch', acquired_at))
            END AS moment
        FROM lock
        WHERE starts_with(name, %(prefix)s)
          AND (%(owner)s = '' OR owner = %(owner)s)
          AND (
            %(search)s = ''
            OR CASE WHEN %(plain)s
                THEN lower((name || E'\n' || coalesce(owner, '') || E'\n' || coalesce(metadata, '')) COLLATE "C")
                    LIKE lower(%(pattern)s COLLATE "C")
                ELSE name ILIKE %(pattern)s OR owner ILIKE %(pattern)s OR metadata ILIKE %(pattern)s
            END
          )
        -- The one that ends first comes first. Among the rest, who has held longest: that order stays as it is when
        -- holders renew, so rows do not wander.
        ORDER BY rank, moment, name
        LIMIT %(rows)s OFFSET %(skipped)s
    ) AS sorted
)
SELECT
    held.id,
    held.name,
    octo_severity_name(page.severity) AS state,
    held.fencing_token, held.owner, held.metadata, held.effective_ttl, held.acquired_at, held.last_heartbeat_at, held.effective_expires_at,
    coalesce(held.available_at, held.effective_expires_at + held.lock_delay_seconds * interval '1 second') AS available_at,
    held.renewals,
    held.bound_session_id IS NOT NULL AS in_session,
    (
        SELECT count(*) FROM octo_waiter
        WHERE octo_waiter.space_id = held.space_id AND octo_waiter.name = held.name
          AND octo_waiter.handed_lease_id IS NULL AND octo_waiter.deadline_at > statement_timestamp()
    ) AS waiters,
    statement_timestamp() AS now
FROM page
JOIN octo_lock_state AS held ON held.id = page.id
ORDER BY page.place
