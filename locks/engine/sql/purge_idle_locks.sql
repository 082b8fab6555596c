-- Deletes lock rows that have been free for long. One row: how many, and the id to continue after, if there are more.
--
-- $1 the id to continue after · $2 after how many days a row is idle · $3 the maximum number of rows to delete · $4 a space whose
-- rows are idle after a day, or null
--
-- The row carries the fencing token; after that the clock takes its place (octo_next_fencing_token). So a row is kept until
-- its token is a day behind the clock. An acquire that waited for the row finds it deleted and is tried again; an acquire
-- that finds it locked waits only for this statement, which itself waits for no row. An access list stays until it is removed.
WITH idle AS MATERIALIZED (
    SELECT lock.id
    FROM octo_lock AS lock
    WHERE lock.id > $1::bigint
      AND lock.lease_id IS NULL
      AND lock.acl IS NULL
      AND lock.updated_at < statement_timestamp()
          - CASE WHEN lock.space_id = $4::bigint THEN 1 ELSE $2::int END * interval '1 day'
      AND coalesce(lock.available_at < statement_timestamp(), true)
      AND lock.fencing_token < extract(epoch FROM statement_timestamp() - interval '1 day') * 1000
      AND NOT EXISTS (
          SELECT FROM octo_waiter AS waiter WHERE waiter.space_id = lock.space_id AND waiter.name = lock.name
      )
    ORDER BY lock.id
    LIMIT $3::int
    FOR UPDATE OF lock SKIP LOCKED
),
deleted AS (
    DELETE FROM octo_lock AS lock USING idle WHERE lock.id = idle.id
)
SELECT count(*)::int AS deleted, max(id) AS last_id FROM idle
