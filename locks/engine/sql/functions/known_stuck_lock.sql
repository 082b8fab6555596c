-- The stuck locks that a task found lately, the most urgent at position 1. The fencing token tells whether the lock still has
-- the holder it had then.
CREATE VIEW octo_known_stuck_lock_v2 AS
SELECT counted.space_id, stuck.lock_id, stuck.fencing_token, stuck.reasons, stuck.position
FROM octo_stuck_count AS counted
CROSS JOIN LATERAL unnest(counted.lock_ids, counted.fencing_tokens, counted.reasons)
    WITH ORDINALITY AS stuck (lock_id, fencing_token, reasons, position)
WHERE counted.counted_at > statement_timestamp() - interval '2 minutes';
