-- Removes lock rows that have been free for long. One row: how many went, and the id to go on after, if any.
--
-- $1 the id to go on after · $2 how many days make a row idle · $3 the most rows to remove
--
-- The row carries the fencing token, and what stands in for it afterwards is the clock: see octo_next_fencing_token.
-- So a row stays as long as its token is not a day behind the clock. An acquire that was waiting for the row finds it
-- gone and goes again; one that meets it locked waits for this statement only, which itself waits for nobody.
WITH idle AS MATERIALIZED (
    SELECT lock.id
    FROM octo_lock AS lock
    WHERE lock.id > $1::bigint
      AND lock.lease_id IS NULL
      AND lock.updated_at < statement_timestamp() - $2::int * interval '1 day'
      AND coalesce(lock.available_at < statement_timestamp(), true)
      AND lock.fencing_token < extract(epoch FROM statement_timestamp() - interval '1 day') * 1000
      AND NOT EXISTS (
          SELECT FROM octo_waiter AS waiter WHERE waiter.space_id = lock.space_id AND waiter.name = lock.name
      )
    ORDER BY lock.id
    LIMIT $3::int
    FOR UPDATE OF lock SKIP LOCKED
),
removed AS (
    DELETE FROM octo_lock AS lock USING idle WHERE lock.id = idle.id
)
SELECT count(*)::int AS removed, max(id) AS reached FROM idle
