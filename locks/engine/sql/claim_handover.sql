-- Claims the leases that were handed over to requests waiting at this server process: each gets its full TTL from now.
--
-- $1 is the server process. One row for each handover: `acquired`, or `handover_expired` if it is too late. The rows are
-- locked first, then the clock is read, as in acquire.sql. The history has these leases already, so nothing is recorded. A
-- lock whose row is locked by another transaction is left for the next time, so that the others do not wait for it. A
-- request whose session is over gets nothing: a lease that is bound to it has ended, another expires unclaimed.
WITH handed AS MATERIALIZED (
    SELECT id, space_id, name, handed_lease_id, ttl_seconds, queue_seq, 
        octo_effective_expiry('infinity', session_id) AS session_ends_at
    FROM octo_waiter
    WHERE server_id = $1::uuid AND handed_lease_id IS NOT NULL
),
locked AS MATERIALIZED (
    SELECT
        handed.id AS waiter_id, handed.queue_seq, handed.ttl_seconds AS requested_ttl_seconds,
        handed.session_ends_at, lock.lease_id IS NOT DISTINCT FROM handed.handed_lease_id AS is_own, lock.*
    FROM handed
    JOIN octo_lock AS lock ON lock.space_id = handed.space_id AND lock.name = handed.name
    ORDER BY lock.space_id, lock.name
    FOR NO KEY UPDATE OF lock SKIP LOCKED
),
clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now, locked_rows FROM (SELECT count(*) AS locked_rows FROM locked) AS all_locked
),
decision AS MATERIALIZED (
    SELECT
        locked.*, clock.now,
        CASE WHEN locked.is_own AND least(locked.expires_at, locked.session_ends_at) > clock.now THEN 'acquired'
             ELSE 'handover_expired' END AS verdict,
        -- A retry with the same idempotency key may have extended it already.
        greatest(locked.expires_at, octo_lease_expiry(
            clock.now, locked.requested_ttl_seconds, locked.acquired_at, space.max_hold_seconds)) AS new_expires_at
    FROM locked
    CROSS JOIN clock
    JOIN octo_space AS space ON space.id = locked.space_id
),
extended AS (
    UPDATE octo_lock AS lock SET
        expires_at = decision.new_expires_at, renewed_at = greatest(lock.renewed_at, decision.now),
        next_sweep_at = decision.new_expires_at, updated_at = decision.now
    FROM decision
    WHERE lock.id = decision.id AND decision.verdict = 'acquired'
),
dequeued AS (
    DELETE FROM octo_waiter AS waiter USING decision WHERE waiter.id = decision.waiter_id
)
SELECT
    waiter_id, queue_seq, verdict, name,
    -- If it is too late, the lease may be another's.
    CASE WHEN verdict = 'acquired' THEN lease_id END AS lease_id,
    fencing_token, holder_id, owner, metadata, acquired_at, new_expires_at AS expires_at, now, space_id,
    -- A returned lease ends unless it was renewed after this. One that was renewed before the claim has been given to a
    -- retry, and stays.
    CASE WHEN renewed_at > acquired_at THEN acquired_at ELSE greatest(acquired_at, now) END AS returnable_until
FROM decision
