-- One lock as it is now, free or not; no row if the name was never used here. Changes nothing. A lease that is tied to a
-- session ends with it.
SELECT
    id,
    name,
    CASE
        WHEN lives_until > statement_timestamp() THEN
            CASE
                WHEN lives_until > statement_timestamp() + interval '30 seconds' THEN 'held'
                WHEN lives_until > statement_timestamp() + ttl_seconds * interval '1 second' / 3 THEN 'held'
                WHEN lives_until < expires_at THEN 'held'
                ELSE 'expiring'
            END
        WHEN coalesce(available_at, lives_until + lock_delay_seconds * interval '1 second') > statement_timestamp()
            THEN 'delayed'
        WHEN lease_id IS NOT NULL THEN 'overdue'
        ELSE 'free'
    END AS state,
    fencing_token, owner, metadata, ttl_seconds, acquired_at, renewed_at,
    CASE WHEN lives_until <= statement_timestamp() THEN lives_until ELSE expires_at END AS expires_at,
    coalesce(available_at, lives_until + lock_delay_seconds * interval '1 second') AS available_at,
    renewals,
    session_id IS NOT NULL AS in_session,
    (
        SELECT count(*) FROM octo_waiter
        WHERE octo_waiter.space_id = lock.space_id AND octo_waiter.name = lock.name
          AND octo_waiter.lease_id IS NULL AND octo_waiter.gives_up_at > statement_timestamp()
    ) AS waiters,
    statement_timestamp() AS now
FROM (
    SELECT octo_lock.*, least(octo_lock.expires_at, session.ended_at, session.expires_at) AS lives_until
    FROM octo_lock
    LEFT JOIN octo_session AS session ON session.id = octo_lock.tied_to
    WHERE octo_lock.space_id = %(space_id)s AND octo_lock.name = %(name)s
) AS lock
