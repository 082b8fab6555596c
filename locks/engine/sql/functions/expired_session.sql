-- Sessions that have ended and whose locks may still look held, for lists and counts. Nearly always none, since the sweep
-- runs every second. The timer is never later than the end, so this reads a short range of its index.
CREATE VIEW octo_expired_session AS
SELECT id FROM octo_session
WHERE next_sweep_at <= statement_timestamp() AND (ended_at IS NOT NULL OR expires_at <= statement_timestamp());
