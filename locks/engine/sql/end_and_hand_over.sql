-- Ends leases that are over or are to be ended, and hands each free lock to the first waiter. One row for each request.
--
-- $1 is a JSON array of requests.EndAndHandOver. `end_mode` says how the lease is to end: release, force, or leave (by the
-- waiter that was handed it and has gone); null ends only a lease that is over anyway. Force-releases come here directly,
-- the other statements send the locks that are bound to a session which may be over, or that have waiters.
--
-- Or only requests whose `end_mode` is session: all locks bound to each session end with it, its requests leave every
-- queue and its end is recorded, in this one commit. A token, or an actor with a reason, ends a session that is active;
-- the sweep, with neither, cleans up one that is over. A lock that is being bound to the session at this moment is not in the snapshot. It is over
-- all the same, and is ended by the next request for it or by the sweep, because an ended session keeps its timer.
--
-- Which leases are over. Sessions are read after all locks are locked, in the order of their ids, and FOR SHARE: a keepalive
-- in progress is waited for and counts, and a later one waits for this statement and finds the session over. So no session
-- can be extended between the reading of the clock and the commit. The clock is read after that.
--
-- Which waiter is next. octo_hand_to_first_waiter reads the queue after the lock was locked, with a snapshot of its own, so
-- it sees every waiter whose place is committed and takes the first of them by `queue_seq`. It is called for locks whose
-- row is marked (`last_waiter_id`), and for those that the snapshot shows a waiter of. A waiter that is neither has
-- joined since the snapshot, is not marked yet, and hands the lock over itself when it is (enqueue.sql).
--
-- Namespaces. A name of a namespace (functions/namespaces.sql) is not handed over when it becomes free, but by a request that
-- `serves_queue`, if it is the turn of its first waiter: octo_next_waiter takes the guard of the space, before any row is
-- locked, and looks for other names that overlap. `spaces_to_serve` are the spaces, of the whole statement, in which requests
-- for other names may be next. Such a request has no digest, and all of a batch are for one space.
--
-- Freezes (functions/freeze.sql). A frozen name is not handed over: its waiters keep their places, as in a cooldown.
--
-- A lease that is handed over is like any other, except that it expires soon unless it is claimed (claim_handover.sql).
--
-- Lock order, in every statement: locks by (space, name), then sessions by id, then waiters. A statement that waits for a
-- waiter's row has the lock of its name; one that has not takes only unlocked rows (SKIP LOCKED) and waits for nothing
-- afterwards. So no cycle can include a waiter, in whatever order waiters are locked. Sessions that are ended are the only
-- ones that their statement locks: a lock that was acquired by another meanwhile is left alone, whatever it is bound to.
WITH auth AS MATERIALIZED (
    SELECT
        request.index, request.name, request.end_mode, request.lease_id, request.expected_fencing_token, request.reason,
        request.lock_delay_seconds, request.request_id, request.channel, request.address, request.detail,
        request.returnable_until,
        session.id AS session_id,
        coalesce(auth.space_id, space.id, session.space_id) AS space_id,
        CASE WHEN request.end_mode <> 'leave' THEN coalesce(auth.token_id, request.actor_id) END AS actor_id,
        CASE WHEN request.end_mode <> 'leave' THEN coalesce(auth.token_name, request.actor_name) END AS actor_name,
        CASE WHEN request.digest IS NULL AND request.end_mode <> 'leave' THEN request.actor_kind ELSE 'token' END
            AS actor_kind,
        coalesce(auth.token_id, request.actor_id) IS NOT NULL OR request.reason IS NOT NULL AS is_requested,
        auth.requests_per_second,
        coalesce(auth.namespaces, space.namespaces) ? octo_namespace(request.name) AS is_namespaced,
        CASE WHEN request.serves_queue AND space.namespaces ? octo_namespace(request.name)
             THEN octo_next_waiter(space.id, space.namespaces, request.name) END AS next_waiter_id,
        CASE
            WHEN request.digest IS NOT NULL THEN auth.refusal
            WHEN request.end_mode IS DISTINCT FROM 'session' AND space.id IS NULL THEN 'not_held'
        END AS refusal
    FROM json_to_recordset($1::json) AS request (
        index int, digest text, space_id bigint, actor_kind text, actor_id bigint, actor_name text, request_id text,
        channel text, address inet, name text COLLATE "C", end_mode text, lease_id uuid, expected_fencing_token bigint,
        reason text, lock_delay_seconds int, detail jsonb, returnable_until timestamptz, session_id uuid,
        serves_queue boolean
    )
    CROSS JOIN LATERAL octo_auth_v2(
        request.digest,
        CASE WHEN request.end_mode = 'force' THEN 'locks:force' WHEN request.end_mode IS NOT NULL THEN 'locks:write' END,
        nullif(request.name, '')) AS auth
    LEFT JOIN octo_space AS space ON request.digest IS NULL AND space.id = request.space_id
    LEFT JOIN octo_session AS session
        ON session.id = request.session_id
        AND (request.digest IS NULL OR octo_token_owns_lease(auth.token_id, session.token_id))
),
snapshot AS MATERIALIZED (
    SELECT auth.*, lock.id
    FROM auth
    CROSS JOIN LATERAL (
        SELECT id FROM octo_lock
        WHERE octo_lock.space_id = auth.space_id AND octo_lock.name = auth.name LIMIT 1
    ) AS lock
    WHERE CASE WHEN auth.refusal IS NULL THEN auth.end_mode IS DISTINCT FROM 'session' ELSE false END
    UNION ALL
    SELECT auth.*, lock.id
    FROM auth
    JOIN octo_lock AS lock ON lock.session_id = auth.session_id
    WHERE auth.refusal IS NULL AND lock.bound_session_id IS NOT NULL
),
-- Each lock once, with the first request that names it.
locked AS MATERIALIZED (
    SELECT
        lock.*, first.channel AS first_channel,
        first.request_id AS first_request_id, first.session_id AS ending_session_id, first.next_waiter_id,
        first.reason AS first_reason, first.actor_kind AS first_actor_kind, first.actor_id AS first_actor_id,
        first.actor_name AS first_actor_name
    FROM (SELECT DISTINCT ON (id) * FROM snapshot ORDER BY id, index) AS first
    JOIN octo_lock AS lock ON lock.id = first.id
    ORDER BY lock.space_id, lock.name
    FOR NO KEY UPDATE OF lock
),
bound_session AS MATERIALIZED (
    SELECT session.id, session.ended_at, session.expires_at
    FROM octo_session AS session
    WHERE session.id = ANY (ARRAY(
        SELECT bound_session_id FROM locked WHERE bound_session_id IS NOT NULL AND ending_session_id IS NULL))
    ORDER BY session.id
    FOR SHARE
),
-- The sessions that are to end, once their locks are locked.
ending_session AS MATERIALIZED (
    SELECT session.*
    FROM octo_session AS session
    WHERE session.id = ANY (ARRAY(SELECT session_id FROM auth WHERE refusal IS NULL AND session_id IS NOT NULL))
      AND (SELECT count(*) FROM locked) >= 0
    ORDER BY session.id
    FOR NO KEY UPDATE
),
clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now, locks, bound, ending
    FROM (SELECT count(*) AS locks FROM locked) AS all_locked
    CROSS JOIN (SELECT count(*) AS bound FROM bound_session) AS all_bound
    CROSS JOIN (SELECT count(*) AS ending FROM ending_session) AS all_ending
),
-- When the sessions end: a session that is ended on request, ends now.
session_expiry AS MATERIALIZED (
    SELECT id, ended_at, expires_at FROM bound_session
    UNION ALL
    SELECT
        session.id,
        CASE WHEN auth.is_requested THEN least(session.ended_at, clock.now) ELSE session.ended_at END,
        session.expires_at
    FROM ending_session AS session
    CROSS JOIN clock
    JOIN auth ON auth.session_id = session.id
),
state AS MATERIALIZED (
    SELECT
        locked.*, clock.now, space.team_id, space.archived_at,
        space.namespaces ? octo_namespace(locked.name) AS is_namespaced,
        octo_freeze_of(space.id, space.frozen_until, locked.name) IS NOT NULL AS is_frozen,
        least(locked.expires_at, session.ended_at, session.expires_at) AS effective_expires_at,
        session.ended_at AS session_ended_at, session.expires_at AS session_expires_at,
        -- It was bound after the snapshot, to a session that is newer than the snapshot.
        locked.bound_session_id IS NOT NULL AND session.id IS NULL AS session_is_unknown
    FROM locked
    CROSS JOIN clock
    JOIN octo_space AS space ON space.id = locked.space_id
    LEFT JOIN session_expiry AS session ON session.id = locked.bound_session_id
    WHERE CASE WHEN locked.ending_session_id IS NULL THEN true
               ELSE locked.bound_session_id = locked.ending_session_id END
),
decision AS MATERIALIZED (
    SELECT
        snapshot.*,
        CASE
            WHEN state.session_is_unknown THEN 'retry'
            WHEN snapshot.end_mode IS NULL THEN 'lease_ended'
            WHEN state.lease_id IS NULL OR state.effective_expires_at <= state.now THEN 'not_held'
            WHEN snapshot.end_mode <> 'force' AND state.lease_id IS DISTINCT FROM snapshot.lease_id
                THEN 'held_by_another'
            -- A retry, or another request of its session, has been given the lease since.
            WHEN snapshot.end_mode = 'leave' AND state.renewed_at > coalesce(snapshot.returnable_until, state.acquired_at)
                THEN 'held_by_another'
            WHEN snapshot.expected_fencing_token <> state.fencing_token THEN 'fencing_mismatch'
            ELSE 'released'
        END AS verdict
    FROM snapshot
    JOIN state USING (id)
    WHERE CASE WHEN snapshot.session_id IS NULL THEN true ELSE false END
),
-- Of several requests to end one lease the first does; the others are too late.
requested_end AS MATERIALIZED (
    SELECT DISTINCT ON (id) * FROM decision WHERE verdict = 'released' ORDER BY id, index
),
-- Which leases have ended, and when. Each CTE carries what the later ones need, and the conditions above are written as
-- CASE: the planner assumes that half of the rows match, and joins hundreds of locks by hash and not in nested loops.
outcome AS MATERIALIZED (
    SELECT
        state.*, requested.index, requested.end_mode, requested.reason AS requested_reason, requested.address,
        requested.detail,
        CASE WHEN state.ending_session_id IS NULL THEN requested.actor_kind ELSE state.first_actor_kind END
            AS actor_kind,
        CASE WHEN state.ending_session_id IS NULL THEN requested.actor_id ELSE state.first_actor_id END AS actor_id,
        CASE WHEN state.ending_session_id IS NULL THEN requested.actor_name ELSE state.first_actor_name END
            AS actor_name,
        coalesce(requested.channel, state.first_channel) AS channel,
        coalesce(requested.request_id, state.first_request_id) AS request_id,
        coalesce(requested.lock_delay_seconds, state.lock_delay_seconds) AS delay_seconds,
        CASE WHEN requested.index IS NOT NULL THEN state.now
             ELSE greatest(state.effective_expires_at, state.acquired_at) END AS ended_at,
        state.lease_id IS NOT NULL AND NOT state.session_is_unknown
            AND (requested.index IS NOT NULL OR state.effective_expires_at <= state.now) AS has_ended
    FROM state
    LEFT JOIN requested_end AS requested USING (id)
),
-- How each lease ended: a session that was ended releases its locks, one that expired lets them expire.
ended AS MATERIALIZED (
    SELECT
        outcome.*,
        CASE
            WHEN end_mode = 'force' THEN 'force_released'
            WHEN index IS NOT NULL OR session_ended_at <= effective_expires_at THEN 'released'
            ELSE 'expired'
        END AS kind,
        CASE
            WHEN end_mode = 'leave' THEN 'the waiting client had disconnected'
            WHEN index IS NOT NULL THEN requested_reason
            WHEN session_ended_at <= effective_expires_at
                THEN coalesce(CASE WHEN ending_session_id IS NOT NULL THEN first_reason END, 'its session was ended')
            WHEN session_expires_at <= effective_expires_at THEN 'its session expired'
            WHEN EXISTS (
                SELECT FROM octo_waiter AS waiter
                WHERE waiter.space_id = outcome.space_id AND waiter.name = outcome.name
                  AND waiter.handed_lease_id = outcome.lease_id
            ) THEN 'handed over, but not claimed'
        END AS reason
    FROM outcome
    WHERE has_ended
),
free_lock AS MATERIALIZED (
    SELECT
        id, space_id, name, now, team_id, archived_at, fencing_token, last_waiter_id, delay_seconds, has_ended, acl,
        is_namespaced, is_frozen, NOT is_namespaced OR next_waiter_id IS NOT NULL AS may_be_handed,
        last_waiter_id IS NOT NULL OR next_waiter_id IS NOT NULL OR EXISTS (
            SELECT FROM octo_waiter AS waiter
            WHERE waiter.space_id = outcome.space_id AND waiter.name = outcome.name AND waiter.handed_lease_id IS NULL
        ) AS may_have_waiters,
        CASE WHEN has_ended THEN octo_delay_end(ended_at, delay_seconds) ELSE available_at END AS available_at
    FROM outcome
    WHERE has_ended OR lease_id IS NULL
),
-- The first waiter of each free lock, if there is one, and the lease that it gets.
handover AS MATERIALIZED (
    SELECT
        free_lock.id, free_lock.space_id, free_lock.name, free_lock.now, free_lock.team_id, free_lock.last_waiter_id,
        free_lock.delay_seconds, free_lock.has_ended, free_lock.available_at, free_lock.is_open,
        free_lock.is_namespaced,
        -- Of a name whose turn it is not, waiters that are present stay in the queue.
        CASE WHEN free_lock.is_open AND free_lock.is_namespaced AND first.waiter_id IS NULL THEN ARRAY(
            SELECT present.id FROM octo_present_waiters(free_lock.space_id) AS present WHERE present.name = free_lock.name
        ) ELSE '{}' END AS staying_ids,
        first.*,
        CASE WHEN first.waiter_id IS NULL THEN free_lock.fencing_token
             ELSE octo_next_fencing_token(free_lock.fencing_token, free_lock.now) END AS fencing_token,
        octo_holder_id(first.public_id, first.session_id) AS holder_id,
        CASE WHEN first.waiter_id IS NOT NULL THEN free_lock.now END AS acquired_at,
        -- CLAIM_TIMEOUT_SECONDS in locks/engine/handover.py, and a millisecond for each lock that may be handed over
        -- along with it, since the clock was read before all of them.
        CASE WHEN first.waiter_id IS NOT NULL
             THEN free_lock.now + interval '700 milliseconds' + interval '1 millisecond' * (
                 SELECT count(*) - 1 FROM free_lock AS other WHERE other.may_have_waiters) END AS expires_at
    FROM (
        SELECT *, may_have_waiters AND NOT is_frozen AND coalesce(available_at <= now, true) AS is_open FROM free_lock
    ) AS free_lock
    LEFT JOIN LATERAL octo_hand_to_first_waiter(
        CASE WHEN free_lock.is_open AND free_lock.may_be_handed THEN free_lock.space_id END, free_lock.name, free_lock.now,
        free_lock.archived_at, ARRAY(SELECT id FROM ending_session), free_lock.acl) AS first ON true
),
-- The new lease where there is a waiter; all its columns are null where there is none.
updated AS (
    UPDATE octo_lock AS lock SET
        fencing_token = new.fencing_token, lease_id = new.lease_id, holder_id = new.holder_id, token_id = new.token_id,
        session_id = new.session_id, bound_session_id = new.bound_session_id, owner = new.owner, metadata = new.metadata,
        ttl_seconds = new.ttl_seconds, acquired_at = new.acquired_at, renewed_at = new.acquired_at,
        expires_at = new.expires_at, renewals = CASE WHEN new.waiter_id IS NOT NULL THEN 0 END,
        idempotency_digest = new.idempotency_digest, request_digest = new.request_digest,
        next_sweep_at = new.expires_at, lock_delay_seconds = coalesce(new.lock_delay_seconds, new.delay_seconds),
        available_at = CASE WHEN new.waiter_id IS NULL THEN new.available_at END, updated_at = new.now,
        -- The queue may be longer than the waiter that got it. Without a waiter that is present there is no queue.
        last_waiter_id = CASE
            WHEN new.waiter_id IS NOT NULL THEN coalesce(new.last_waiter_id, new.waiter_id)
            WHEN NOT new.is_open OR new.staying_ids <> '{}' THEN new.last_waiter_id END
    FROM handover AS new
    WHERE lock.id = new.id AND (new.has_ended OR new.is_open)
),
-- Waiters that are gone, and those that did not claim the lease that they were handed.
removed AS (
    DELETE FROM octo_waiter AS waiter
    USING (
        SELECT space_id, name, NULL::uuid AS lease_id, staying_ids FROM handover
        WHERE is_open AND waiter_id IS NULL
        UNION ALL
        SELECT space_id, name, lease_id, '{}' FROM ended WHERE last_waiter_id IS NOT NULL
    ) AS gone
    WHERE waiter.id <> ALL (gone.staying_ids) AND waiter.space_id = gone.space_id AND waiter.name = gone.name
      AND waiter.handed_lease_id IS NOT DISTINCT FROM gone.lease_id
),
ended_session AS (
    UPDATE octo_session AS session SET
        ended_at = session_expiry.ended_at,
        next_sweep_at = CASE WHEN auth.is_requested THEN least(ending.next_sweep_at, clock.now) END
    FROM ending_session AS ending
    JOIN session_expiry USING (id)
    JOIN auth ON auth.session_id = ending.id
    CROSS JOIN clock
    WHERE session.id = ending.id
      AND CASE
          WHEN auth.is_requested THEN ending.ended_at IS NULL AND ending.expires_at > clock.now
          ELSE ending.next_sweep_at IS NOT NULL AND least(ending.ended_at, ending.expires_at) <= clock.now
      END
    RETURNING
        session.id, session.space_id, session.owner, session.metadata, session.token_id, session.created_at,
        least(session.ended_at, session.expires_at) AS over_at,
        CASE WHEN auth.is_requested THEN 'session_ended'
             WHEN ending.ended_at IS NULL THEN 'session_expired' END AS kind
),
-- The session leaves every queue. A lease that it was handed there and has not claimed ends with its other locks.
session_waiter AS MATERIALIZED (
    SELECT waiter.id
    FROM octo_waiter AS waiter
    JOIN session_expiry ON session_expiry.id = waiter.session_id
    JOIN ending_session ON ending_session.id = session_expiry.id
    CROSS JOIN clock
    WHERE waiter.handed_lease_id IS NULL AND least(session_expiry.ended_at, session_expiry.expires_at) <= clock.now
    FOR UPDATE OF waiter SKIP LOCKED
),
dequeued AS (
    DELETE FROM octo_waiter AS waiter USING session_waiter WHERE waiter.id = session_waiter.id
),
recorded AS (
    INSERT INTO octo_event (
        at, kind, team_id, space_id, lock_name, fencing_token, owner, holder_id, metadata, token_id, actor_kind,
        actor_id, actor_name, channel, address, request_id, reason, held_ms, recorded_late_ms, detail
    )
    SELECT event.*
    FROM ended
    LEFT JOIN octo_token AS token ON token.id = ended.token_id
    -- Sessions and waiting requests belong to a token: it is the actor when a lease ends with them.
    CROSS JOIN LATERAL octo_end_event(
        ended.kind, ended.now, ended.team_id, ended.space_id, ended.name, ended.fencing_token, ended.owner,
        ended.holder_id, ended.metadata, ended.token_id, ended.acquired_at, ended.ended_at, ended.channel,
        ended.request_id, coalesce(ended.actor_kind, 'token'),
        CASE WHEN ended.actor_name IS NULL THEN ended.token_id ELSE ended.actor_id END,
        coalesce(ended.actor_name, token.name, 'session'), ended.address, ended.reason, ended.detail) AS event
    UNION ALL
    SELECT event.*
    FROM handover AS new
    CROSS JOIN LATERAL octo_grant_event_v2(
        new.now, new.team_id, new.space_id, new.name, new.fencing_token, new.owner, new.holder_id, new.metadata,
        new.token_id, new.token_name, new.channel, new.address, new.request_id,
        -- A waiter that joined after the clock was read has not waited.
        jsonb_build_object('waited_ms', greatest(octo_interval_ms(new.now - new.enqueued_at), 0))) AS event
    WHERE new.waiter_id IS NOT NULL
    UNION ALL
    SELECT
        clock.now, session.kind, space.team_id, session.space_id, NULL, NULL, session.owner,
        octo_holder_id(token.public_id, session.id), session.metadata, session.token_id,
        CASE WHEN auth.is_requested THEN auth.actor_kind ELSE 'system' END, auth.actor_id,
        coalesce(auth.actor_name, 'expiry'), auth.channel, auth.address, auth.request_id, auth.reason,
        octo_interval_ms(session.over_at - session.created_at),
        CASE WHEN NOT auth.is_requested THEN octo_interval_ms(clock.now - session.over_at) END,
        NULL
    FROM ended_session AS session
    JOIN auth ON auth.session_id = session.id
    LEFT JOIN octo_token AS token ON token.id = session.token_id
    JOIN octo_space AS space ON space.id = session.space_id
    CROSS JOIN clock
    WHERE session.kind IS NOT NULL
    -- The end of a lease comes before the next lease of the same lock.
    ORDER BY space_id, lock_name NULLS FIRST, fencing_token
    RETURNING id, kind, space_id, lock_name
),
-- Only where a request waits: a commit that notifies takes a lock that all such commits share.
notified AS MATERIALIZED (
    SELECT count(*)::int AS servers
    FROM (SELECT DISTINCT server_id FROM handover WHERE waiter_id IS NOT NULL) AS server
    CROSS JOIN LATERAL (SELECT pg_notify('octo_handover_' || replace(server.server_id::text, '-', ''), '')) AS sent
)
SELECT
    auth.index,
    CASE
        WHEN auth.refusal IS NOT NULL THEN auth.refusal
        WHEN auth.end_mode = 'session' THEN
            CASE
                WHEN ended_session.id IS NOT NULL THEN 'ended'
                WHEN ending_session.id IS NOT NULL THEN 'session_over'
                ELSE 'no_session'
            END
        WHEN decision.verdict IN ('released', 'fencing_mismatch') AND decision.index > requested_end.index
            THEN 'not_held'
        WHEN decision.index IS NOT NULL THEN decision.verdict
        WHEN snapshot.index IS NOT NULL THEN 'retry'
        WHEN auth.end_mode IS NULL THEN 'lease_ended'
        ELSE 'not_held'
    END AS verdict,
    auth.name,
    auth.lease_id,
    lease.fencing_token,
    lease.owner,
    lease.metadata,
    lease.acquired_at,
    lease.effective_expires_at AS expires_at,
    free_lock.available_at,
    recorded.id AS event_id,
    (
        SELECT array_agg(DISTINCT space_id)
        FROM (
            SELECT space_id FROM auth WHERE is_namespaced AND refusal IS NULL
            UNION ALL
            SELECT space_id FROM free_lock WHERE is_namespaced
        ) AS freed
    ) AS spaces_to_serve,
    notified.servers AS servers_notified,
    clock_timestamp() AS now,
    auth.space_id,
    auth.requests_per_second
FROM auth
CROSS JOIN notified
LEFT JOIN snapshot ON snapshot.index = auth.index AND snapshot.session_id IS NULL
LEFT JOIN decision ON decision.index = auth.index
LEFT JOIN requested_end ON requested_end.id = decision.id
LEFT JOIN state AS lease ON lease.id = decision.id
    AND (decision.index = requested_end.index OR decision.verdict = 'fencing_mismatch')
LEFT JOIN free_lock ON free_lock.id = snapshot.id
LEFT JOIN ending_session ON ending_session.id = auth.session_id
LEFT JOIN ended_session ON ended_session.id = auth.session_id
LEFT JOIN recorded ON recorded.kind = 'force_released'
    AND recorded.space_id = auth.space_id AND recorded.lock_name = auth.name
    AND decision.index = requested_end.index
ORDER BY auth.index
