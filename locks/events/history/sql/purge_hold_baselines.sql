-- Removes what was worked out for holds that are over.
DELETE FROM octo_hold_baseline AS usual
WHERE NOT EXISTS (
    SELECT FROM octo_lock AS lock
    WHERE lock.id = usual.lock_id AND lock.fencing_token = usual.fencing_token AND lock.lease_id IS NOT NULL
)
