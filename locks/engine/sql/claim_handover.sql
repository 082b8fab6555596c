-- Pick up: the leases that requests waiting at this server were handed, each from now on as long as it asked for.
--
-- $1 is the server. A row for each that was handed one, `acquired`, or `lapsed` if it came too late. Locks first, then the
-- clock, as in acquire.sql. The history has these leases already; whoever picks one up only prolongs it. A lock that
-- somebody is working on is left for the next time: the others have no time to wait for it.
WITH handed AS MATERIALIZED (
    SELECT waiter.id, waiter.space_id, waiter.name, waiter.handed_lease_id AS lease_id, waiter.ttl_seconds, waiter.queue_seq
    FROM octo_waiter AS waiter
    WHERE waiter.server_id = $1::uuid AND waiter.handed_lease_id IS NOT NULL
),
locked AS MATERIALIZED (
    SELECT
        handed.id AS waiter_id, handed.queue_seq, handed.ttl_seconds AS wanted_seconds,
        lock.lease_id IS NOT DISTINCT FROM handed.lease_id AS is_theirs, lock.*
    FROM handed
    JOIN octo_lock AS lock ON lock.space_id = handed.space_id AND lock.name = handed.name
    ORDER BY lock.space_id, lock.name
    FOR NO KEY UPDATE OF lock SKIP LOCKED
),
clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now, waited_for FROM (SELECT count(*) AS waited_for FROM locked) AS all_locked
),
decided AS MATERIALIZED (
    SELECT
        locked.*, clock.now,
        CASE WHEN locked.is_theirs AND locked.expires_at > clock.now THEN 'acquired' ELSE 'handover_expired' END AS verdict,
        -- A retry with the same key may have prolonged it already.
        greatest(locked.expires_at, least(
            clock.now + locked.wanted_seconds * interval '1 second',
            locked.acquired_at + space.max_hold_seconds * interval '1 second'
        )) AS until
    FROM locked
    CROSS JOIN clock
    JOIN octo_space AS space ON space.id = locked.space_id
),
prolonged AS (
    UPDATE octo_lock AS lock SET
        expires_at = decided.until, renewed_at = greatest(lock.renewed_at, decided.now),
        next_sweep_at = decided.until, updated_at = decided.now
    FROM decided
    WHERE lock.id = decided.id AND decided.verdict = 'acquired'
),
answered AS (
    DELETE FROM octo_waiter AS waiter USING decided WHERE waiter.id = decided.waiter_id
)
SELECT
    waiter_id, queue_seq, verdict, name,
    -- Whoever came too late may find somebody else's there.
    CASE WHEN verdict = 'acquired' THEN lease_id END AS lease_id,
    fencing_token, holder_id, owner, metadata, acquired_at, until AS expires_at, now, space_id
FROM decided
