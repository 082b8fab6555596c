-- A space in five numbers. Changes nothing. Counts of locks follow from their rows, so they are never behind.
SELECT
    held.held,
    held.expiring,
    held.overdue,
    (SELECT count(*) FROM octo_lock
     WHERE space_id = %(space_id)s AND lease_id IS NULL AND available_at > statement_timestamp()) AS closed,
    (SELECT count(*) FROM octo_waiter
     WHERE space_id = %(space_id)s AND lease_id IS NULL AND gives_up_at > statement_timestamp()) AS waiting,
    statement_timestamp() AS now
FROM (
    SELECT
        count(*) FILTER (WHERE lives_until > statement_timestamp()) AS held,
        count(*) FILTER (
            WHERE lives_until > statement_timestamp()
              AND expires_at <= statement_timestamp() + interval '30 seconds'
              AND expires_at <= statement_timestamp() + ttl_seconds * interval '1 second' / 3
        ) AS expiring,
        count(*) FILTER (WHERE lives_until <= statement_timestamp()) AS overdue
    FROM (
        SELECT
            octo_lock.expires_at, octo_lock.ttl_seconds,
            least(octo_lock.expires_at, session.ended_at, session.expires_at) AS lives_until
        FROM octo_lock
        LEFT JOIN octo_session AS session ON session.id = octo_lock.tied_to
        WHERE octo_lock.space_id = %(space_id)s AND octo_lock.lease_id IS NOT NULL
    ) AS lease
) AS held
