-- One lock as it is now, free or not; no row if the name was never used here. Changes nothing.
SELECT
    id,
    name,
    CASE
        WHEN expires_at > statement_timestamp() THEN
            CASE
                WHEN expires_at > statement_timestamp() + interval '30 seconds' THEN 'held'
                WHEN expires_at > statement_timestamp() + ttl_seconds * interval '1 second' / 3 THEN 'held'
                ELSE 'expiring'
            END
        WHEN coalesce(available_at, expires_at + lock_delay_seconds * interval '1 second') > statement_timestamp()
            THEN 'delayed'
        WHEN lease_id IS NOT NULL THEN 'overdue'
        ELSE 'free'
    END AS state,
    fencing_token, owner, metadata, ttl_seconds, acquired_at, renewed_at, expires_at,
    coalesce(available_at, expires_at + lock_delay_seconds * interval '1 second') AS available_at,
    renewals,
    session_id IS NOT NULL AS in_session,
    (
        SELECT count(*) FROM octo_waiter
        WHERE octo_waiter.space_id = octo_lock.space_id AND octo_waiter.name = octo_lock.name
          AND octo_waiter.gives_up_at > statement_timestamp()
    ) AS waiters,
    statement_timestamp() AS now
FROM octo_lock
WHERE space_id = %(space_id)s AND name = %(name)s
