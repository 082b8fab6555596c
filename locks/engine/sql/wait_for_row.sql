-- Await: waits until nobody is working on a lock any more. $1 space · $2 name
--
-- Those who wait for the same lock do not wait for each other.
SELECT FROM octo_lock WHERE space_id = $1 AND name = $2 FOR SHARE
