-- Release: one row for each request of the batch, in its order.
--
-- $1 is a JSON array of requests.Release. The rows are locked first, then the clock is read, as in acquire.sql. A lease
-- that has expired cannot be released: the sweep or the next acquire records its end. If requests may be waiting for
-- the lock or, in a namespace, for a name that overlaps, or the lease seems to have ended with its session, nothing is changed and the verdict is `needs_handover`:
-- end_and_hand_over.sql releases it and hands it over.
WITH auth AS MATERIALIZED (
    SELECT
        request.index, request.name, request.lease_id, request.request_id, request.channel, request.address,
        auth.token_id, auth.token_name, auth.space_id, auth.team_id, auth.requests_per_second, auth.has_namespace_queue,
        auth.refusal
    FROM json_to_recordset($1::json) AS request (
        index int, digest text, request_id text, channel text, address inet, name text COLLATE "C", lease_id uuid
    )
    CROSS JOIN LATERAL octo_auth_v2(request.digest, 'locks:write', request.name) AS auth
),
snapshot AS MATERIALIZED (
    SELECT auth.*, lock.lock_id, lock.state
    FROM auth
    CROSS JOIN LATERAL octo_own_lock_snapshot(auth.space_id, auth.name, auth.lease_id, auth.token_id) AS lock
    WHERE auth.refusal IS NULL
),
locked AS MATERIALIZED (
    SELECT
        snapshot.index, snapshot.name, snapshot.request_id, snapshot.channel, snapshot.address, snapshot.token_id,
        snapshot.token_name, snapshot.space_id, snapshot.team_id, snapshot.has_namespace_queue, lock.id,
        lock.lease_id IS NOT DISTINCT FROM snapshot.lease_id AS is_own,
        lock.fencing_token, lock.owner, lock.holder_id, lock.metadata, lock.token_id AS held_token_id,
        lock.acquired_at, lock.expires_at, lock.lock_delay_seconds, lock.last_waiter_id
    FROM snapshot
    JOIN octo_lock AS lock ON lock.id = snapshot.lock_id
    WHERE snapshot.state = 'own'
    ORDER BY snapshot.space_id, snapshot.name
    FOR NO KEY UPDATE OF lock
),
clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now, locked_rows FROM (SELECT count(*) AS locked_rows FROM locked) AS all_locked
),
-- Of several requests for one lease the first releases it; the others are too late.
decision AS MATERIALIZED (
    SELECT
        locked.*, clock.now,
        CASE
            WHEN locked.expires_at > clock.now THEN
                CASE
                    WHEN NOT locked.is_own THEN 'held_by_another'
                    WHEN locked.last_waiter_id IS NOT NULL OR locked.has_namespace_queue THEN 'needs_handover'
                    WHEN row_number() OVER (PARTITION BY locked.id ORDER BY locked.index) = 1 THEN 'released'
                    ELSE 'not_held'
                END
            ELSE 'not_held'
        END AS verdict
    FROM locked
    CROSS JOIN clock
),
updated AS (
    UPDATE octo_lock AS lock SET
        lease_id = NULL, holder_id = NULL, token_id = NULL, session_id = NULL, bound_session_id = NULL, owner = NULL,
        metadata = NULL, ttl_seconds = NULL, acquired_at = NULL, renewed_at = NULL, expires_at = NULL, renewals = NULL,
        idempotency_digest = NULL, request_digest = NULL, next_sweep_at = NULL,
        available_at = octo_delay_end(decision.now, decision.lock_delay_seconds), updated_at = decision.now
    FROM decision
    WHERE lock.id = decision.id AND decision.verdict = 'released'
),
recorded AS (
    INSERT INTO octo_event_entry
    SELECT event.*
    FROM decision
    CROSS JOIN LATERAL octo_end_event(
        'released', now, team_id, space_id, name, fencing_token, owner, holder_id, metadata, held_token_id,
        acquired_at, now, channel, request_id, 'token', token_id, token_name, address) AS event
    WHERE verdict = 'released'
    ORDER BY index
)
SELECT
    auth.index,
    coalesce(auth.refusal, decision.verdict, nullif(snapshot.state, 'own'), 'retry') AS verdict,
    auth.name,
    auth.lease_id,
    CASE WHEN decision.verdict = 'released' THEN decision.fencing_token END AS fencing_token,
    clock_timestamp() AS now,
    auth.space_id,
    auth.requests_per_second
FROM auth
LEFT JOIN snapshot USING (index)
LEFT JOIN decision USING (index)
ORDER BY auth.index
