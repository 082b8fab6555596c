-- Waits until no transaction is changing a lock. $1 space · $2 name
--
-- FOR SHARE, so that requests that wait for the same lock do not wait for each other.
SELECT FROM octo_lock WHERE space_id = $1 AND name = $2 FOR SHARE
