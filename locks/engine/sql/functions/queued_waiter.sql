-- The waiters in the queue of a lock: not handed a lease yet, and their time is not over.
CREATE VIEW octo_queued_waiter AS
SELECT * FROM octo_waiter WHERE handed_lease_id IS NULL AND deadline_at > statement_timestamp();
