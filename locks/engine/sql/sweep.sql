-- Sweep: clears leases that have run out and records how each ended. One row: what was found.
--
-- $1 is the most leases to look at.
--
-- next_sweep_at is a timer that renew never pushes on, so a lease found here may well be alive; then its timer is set to
-- its expiry. SKIP LOCKED: a row that somebody else holds is being renewed, released, taken over (which records
-- the expiry itself) or swept, and whatever is left of it is found the next time. Nothing here ever waits for a row,
-- so any number of sweeps can run at once, and the row lock makes sure that one of them has each lease.
-- The clock is read after the rows are locked, as in acquire.sql. Where somebody may be in line, or the lease was tied to
-- a session, it is only named in `unsettled`: end_and_hand_over.sql ends it and hands it on.
WITH due AS MATERIALIZED (
    SELECT
        lock.id, lock.space_id, lock.name, lock.fencing_token, lock.owner, lock.holder_id, lock.metadata,
        lock.token_id, lock.acquired_at, lock.expires_at, lock.lock_delay_seconds,
        lock.last_waiter_id IS NOT NULL OR lock.bound_session_id IS NOT NULL AS unsettled
    FROM octo_lock AS lock
    -- The statement's own time, not clock_timestamp(): that could not be looked up in an index.
    WHERE lock.lease_id IS NOT NULL AND lock.next_sweep_at <= statement_timestamp()
    ORDER BY lock.next_sweep_at
    LIMIT $1::int
    FOR NO KEY UPDATE SKIP LOCKED
),
clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now, found FROM (SELECT count(*)::int AS found FROM due) AS all_locked
),
over AS MATERIALIZED (
    SELECT due.*, clock.now FROM due CROSS JOIN clock WHERE due.expires_at <= clock.now AND NOT due.unsettled
),
cleared AS (
    UPDATE octo_lock AS lock SET
        lease_id = NULL, holder_id = NULL, token_id = NULL, session_id = NULL, bound_session_id = NULL, owner = NULL, metadata = NULL,
        ttl_seconds = NULL, acquired_at = NULL, renewed_at = NULL, expires_at = NULL, renewals = NULL,
        idempotency_digest = NULL, request_digest = NULL, next_sweep_at = NULL,
        -- From the expiry, not from now: a late sweep closes no name for longer. How long the delay is stays in the
        -- row, for whoever is told of it.
        available_at = over.expires_at + nullif(over.lock_delay_seconds, 0) * interval '1 second',
        updated_at = over.now
    FROM over
    WHERE lock.id = over.id
),
put_off AS (
    UPDATE octo_lock AS lock SET next_sweep_at = due.expires_at
    FROM due CROSS JOIN clock
    WHERE lock.id = due.id AND due.expires_at > clock.now
),
recorded AS (
    INSERT INTO octo_event (
        at, kind, team_id, space_id, lock_name, fencing_token, owner, holder_id, metadata, token_id, actor_kind,
        actor_name, channel, held_ms, recorded_late_ms
    )
    SELECT
        over.now, 'expired', space.team_id, over.space_id, over.name, over.fencing_token, over.owner, over.holder_id,
        over.metadata, over.token_id, 'system', 'expiry', 'task', octo_interval_ms(over.expires_at - over.acquired_at),
        octo_interval_ms(over.now - over.expires_at)
    FROM over
    JOIN octo_space AS space ON space.id = over.space_id
    ORDER BY over.expires_at, over.id
)
SELECT
    clock.found,
    (SELECT count(*)::int FROM over) AS expired,
    (SELECT array_agg(space_id ORDER BY space_id, name) FROM due WHERE unsettled AND expires_at <= clock.now) AS spaces,
    (SELECT array_agg(name ORDER BY space_id, name) FROM due WHERE unsettled AND expires_at <= clock.now) AS names
FROM clock
