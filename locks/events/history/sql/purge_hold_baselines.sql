-- Removes the baselines of holds that have ended.
DELETE FROM octo_hold_baseline AS baseline
WHERE NOT EXISTS (
    SELECT FROM octo_lock AS lock
    WHERE lock.id = baseline.lock_id AND lock.fencing_token = baseline.fencing_token AND lock.lease_id IS NOT NULL
)
