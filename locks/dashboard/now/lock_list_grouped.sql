-- A page of what is held or closed in a space, in groups: by owner, or by what stands before the first slash. Changes
-- nothing.
--
-- Parameters as in lock_list.sql, and group. Groups in trouble come first, then the largest; inside of them the order is
-- that of lock_list.sql. `label`, `number` and `troubled` tell of the whole group.
WITH lock AS NOT MATERIALIZED (
    SELECT
        id, name, owner, metadata, acquired_at,
        CASE %(group)s
            WHEN 'owner' THEN coalesce(owner, '')
            WHEN 'prefix' THEN left(name, strpos(name, '/'))
        END AS label,
        effective_expires_at AS ends_at, severity
    FROM octo_lock_state
    WHERE space_id = %(space_id)s AND lease_id IS NOT NULL
    UNION ALL
    SELECT
        id, name, owner, metadata, acquired_at,
        CASE WHEN %(group)s = 'prefix' THEN left(name, strpos(name, '/')) ELSE '' END,
        available_at, 3
    FROM octo_lock
    WHERE space_id = %(space_id)s AND lease_id IS NULL AND available_at > statement_timestamp()
),
wanted AS NOT MATERIALIZED (
    SELECT id, name, acquired_at, ends_at, severity, label
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
),
heading AS (
    SELECT label, count(*) AS number, count(*) FILTER (WHERE severity < 3) AS troubled, min(severity) AS worst
    FROM wanted
    GROUP BY label
),
-- Only groups that reach into the page are looked at lock by lock.
shown AS MATERIALIZED (
    SELECT *, row_number() OVER (ORDER BY up_to) AS nth
    FROM (
        SELECT
            *,
            count(*) OVER () AS groups,
            sum(number) OVER (
                ORDER BY
                    CASE WHEN %(sort)s = 'trouble' THEN worst END,
                    CASE WHEN %(sort)s = 'trouble' THEN number END DESC,
                    label
            )::bigint AS up_to
        FROM heading
    ) AS added_up
    WHERE up_to > %(skipped)s AND up_to - number < %(skipped)s + %(rows)s
),
-- Not a join, which might look at everything once for each group, and sorts what it has joined. A large group fills the
-- page alone, and its label need not be looked for. What is sorted by stands in front, where its place in a row is known.
page AS (
    SELECT id, severity, rank / 8 AS nth, row_number() OVER () AS place
    FROM (
        SELECT
            id, severity,
            8 * CASE WHEN (SELECT count(*) FROM shown) = 1 THEN 1
                     ELSE array_position(ARRAY(SELECT label FROM shown ORDER BY nth), label) END
                + CASE WHEN %(sort)s = 'trouble' THEN severity ELSE 0 END AS rank,
            CASE %(sort)s
                WHEN 'trouble' THEN CASE WHEN severity < 4 THEN ends_at ELSE acquired_at END
                WHEN 'left' THEN ends_at
                WHEN 'oldest' THEN acquired_at
                WHEN 'newest' THEN to_timestamp(-date_part('epoch', acquired_at))
            END AS moment
        FROM wanted
        WHERE (SELECT max(groups) FROM shown) = 1 OR (label IN (SELECT label FROM shown)) IS TRUE
        ORDER BY rank, moment, name
        LIMIT %(rows)s OFFSET %(skipped)s - (SELECT min(up_to - number) FROM shown)
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
    shown.label, shown.number, shown.troubled,
    statement_timestamp() AS now
FROM page
JOIN shown USING (nth)
JOIN octo_lock_state AS held ON held.id = page.id
ORDER BY page.place
