-- Renew: one row for each request of the batch, in its order.
--
-- $1 is a JSON array of requests.Renew.
--
-- A lease id is never used again, so a snapshot that shows another one is a final answer. If it shows the caller's, the
-- row is locked first and the clock read after (see acquire.sql): the lease counts as the last transaction left it, at
-- a time when no other can change it. An expired lease is never revived. No indexed column changes unless the new
-- expiry is earlier than the sweep's timer, so a renewal is a heap-only update. Several requests for one lease count in
-- their order, so the expiry of the last one stays. A lease that seems to have ended with its session gets
-- `needs_handover` (see acquire.sql).
WITH auth AS MATERIALIZED (
    SELECT
        request.index, request.name, request.lease_id, request.ttl_seconds, auth.token_id, auth.space_id,
        auth.max_ttl_seconds, auth.max_hold_seconds, auth.requests_per_second,
        coalesce(auth.refusal, CASE WHEN request.ttl_seconds > auth.max_ttl_seconds THEN 'ttl_too_long' END) AS refusal
    FROM json_to_recordset($1::json) AS request (
        index int, digest text, name text COLLATE "C", lease_id uuid, ttl_seconds int
    )
    CROSS JOIN LATERAL octo_auth_v2(request.digest, 'locks:write', request.name) AS auth
),
snapshot AS MATERIALIZED (
    SELECT auth.*, lock.*
    FROM auth
    CROSS JOIN LATERAL octo_own_lock_snapshot(auth.space_id, auth.name, auth.lease_id, auth.token_id) AS lock
    WHERE auth.refusal IS NULL
),
locked AS MATERIALIZED (
    SELECT
        snapshot.index, snapshot.max_hold_seconds, snapshot.session_expires_at, lock.id, lock.fencing_token,
        lock.acquired_at, lock.renewed_at, lock.expires_at,
        lock.lease_id IS NOT DISTINCT FROM snapshot.lease_id AS is_own,
        coalesce(snapshot.ttl_seconds, least(lock.ttl_seconds, snapshot.max_ttl_seconds)) AS ttl_seconds
    FROM snapshot
    JOIN octo_lock AS lock ON lock.id = snapshot.lock_id
    WHERE snapshot.state = 'own'
    ORDER BY snapshot.space_id, snapshot.name
    FOR NO KEY UPDATE OF lock
),
clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now, locked_rows FROM (SELECT count(*) AS locked_rows FROM locked) AS all_locked
),
decision AS MATERIALIZED (
    SELECT
        locked.*,
        CASE
            WHEN NOT locked.is_own THEN
                CASE WHEN locked.expires_at > clock.now THEN 'held_by_another' ELSE 'not_held' END
            WHEN locked.expires_at <= clock.now THEN 'not_held'
            WHEN locked.session_expires_at <= clock.now THEN NULL
            WHEN locked.acquired_at + locked.max_hold_seconds * interval '1 second' <= clock.now
                THEN 'max_hold_reached'
            ELSE 'renewed'
        END AS verdict,
        -- A clock that was set back does not shorten a lease.
        greatest(clock.now, locked.renewed_at) AS now,
        octo_lease_expiry(
            greatest(clock.now, locked.renewed_at), locked.ttl_seconds, locked.acquired_at, locked.max_hold_seconds
        ) AS new_expires_at
    FROM locked
    CROSS JOIN clock
),
updated AS (
    UPDATE octo_lock AS lock SET
        expires_at = last.new_expires_at,
        renewed_at = last.now,
        ttl_seconds = last.ttl_seconds,
        renewals = lock.renewals + 1,
        next_sweep_at = least(lock.next_sweep_at, last.new_expires_at)
    FROM (SELECT DISTINCT ON (id) * FROM decision WHERE verdict = 'renewed' ORDER BY id, index DESC) AS last
    WHERE lock.id = last.id
)
SELECT
    auth.index,
    coalesce(auth.refusal, decision.verdict, nullif(snapshot.state, 'own'), 'retry') AS verdict,
    auth.name,
    auth.lease_id,
    CASE WHEN decision.verdict = 'renewed' THEN decision.fencing_token END AS fencing_token,
    CASE WHEN decision.verdict = 'renewed' THEN decision.new_expires_at END AS expires_at,
    clock_timestamp() AS now,
    auth.space_id,
    auth.max_ttl_seconds,
    auth.requests_per_second
FROM auth
LEFT JOIN snapshot USING (index)
LEFT JOIN decision USING (index)
ORDER BY auth.index
