-- One lock as it is now, free or not; no row if the name was never used here. Changes nothing.
SELECT
    id,
    name,
    octo_state(trouble) AS state,
    fencing_token, owner, metadata, whole_seconds, acquired_at, heard_at, lives_until,
    coalesce(available_at, lives_until + lock_delay_seconds * interval '1 second') AS available_at,
    renewals,
    tied_to IS NOT NULL AS in_session,
    (
        SELECT count(*) FROM octo_waiter
        WHERE octo_waiter.space_id = lock.space_id AND octo_waiter.name = lock.name
          AND octo_waiter.lease_id IS NULL AND octo_waiter.gives_up_at > statement_timestamp()
    ) AS waiters,
    statement_timestamp() AS now
FROM octo_standing AS lock
WHERE space_id = %(space_id)s AND name = %(name)s
