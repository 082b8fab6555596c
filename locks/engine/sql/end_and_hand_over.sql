-- Settle: ends what is over, or is to be ended, and hands each open lock to the first in line. One row a request.
--
-- $1 is a JSON array of requests.Settle: `ending` is how the lease is to end (release, force, or leave: by whoever stood in
-- line for it and has gone), or null to end only what is over anyway. The plain statements come here for every lock that
-- is tied to a session which may be dead, or for which somebody may be in line.
--
-- Or one request, alone, whose `ending` is session: all locks that are tied to the session end with it, it leaves every
-- line, and its own end is recorded, all in this one commit. A token ends a session that lives; nobody (the sweep) sees to
-- one that is over. A lock that is being tied to it at this moment is in no snapshot of ours. It is over all the same, and
-- is seen to by whoever asks for it or by the sweep, for which an ended session keeps its timer.
--
-- Who is over. Sessions are looked at after all locks are locked, in the order of their ids, and FOR SHARE: a keepalive
-- that is under way is waited for and counts, and one that comes later waits for us and finds the session over. So nobody
-- can prolong a session between our look at the clock and our commit. The clock comes after that.
--
-- Who is next. `last_waiter_id` is read on the locked row, the line in the snapshot. Whoever joins locks the row first, and
-- ids are given out under that lock, so whoever the snapshot does not show came later than all whom it shows: the first
-- that is shown, and still there (FOR UPDATE passes over whoever has left), is next. Only where the snapshot shows nobody
-- and `last_waiter_id` has moved since, the answer is `raced`, and the lock is settled once more. Somebody is in line as long
-- as the server that holds the request says so and the token and session are good; whether it does is asked for the time
-- of the snapshot, since a statement that had to wait knows nothing later.
--
-- What is handed on is a lease like any other, except that it runs out soon unless it is picked up (claim_handover.sql).
--
-- Order of locking, everywhere: locks by (space, name), then sessions by id, then waiters. Whoever waits for a waiter's row
-- has the lock of its name; whoever has not takes the rows that nobody works on (SKIP LOCKED) and waits for nothing after.
-- So no circle can close at a waiter, in whatever order they are taken. A session that is ended is the only one that its
-- statement locks: a lock that others have taken from it meanwhile is left alone, with whatever it is tied to by then.
WITH caller AS MATERIALIZED (
    SELECT
        request.n, request.name, request.ending, request.lease_id, request.guard, request.reason,
        request.lock_delay_seconds, request.request_id, request.channel, request.address, request.detail,
        request.renewed_at,
        session.id AS session_id,
        coalesce(live.space_id, space.id, session.space_id) AS space_id,
        CASE WHEN request.ending <> 'leave' THEN coalesce(live.token_id, request.actor_id) END AS actor_id,
        CASE WHEN request.ending <> 'leave' THEN coalesce(live.token_name, request.actor_name) END AS actor_name,
        CASE WHEN request.digest IS NULL AND request.ending <> 'leave' THEN request.actor_kind ELSE 'token' END AS actor_kind,
        live.requests_per_second,
        CASE
            WHEN request.digest IS NULL THEN
                CASE WHEN request.ending IS DISTINCT FROM 'session' AND space.id IS NULL THEN 'not_held' END
            WHEN live.token_id IS NULL THEN 'unauthenticated'
            WHEN request.ending IN ('release', 'session') AND NOT 'locks:write' = ANY (live.scopes) THEN 'scope_missing'
            WHEN request.ending = 'force' AND NOT 'locks:force' = ANY (live.scopes) THEN 'scope_missing'
            WHEN request.ending = 'session' THEN NULL
            WHEN NOT octo_name_matches_prefixes(request.name, live.prefixes) THEN 'name_not_allowed'
        END AS refusal
    FROM json_to_recordset($1::json) AS request (
        n int, digest text, space_id bigint, actor_kind text, actor_id bigint, actor_name text, request_id text,
        channel text, address inet, name text COLLATE "C", ending text, lease_id uuid, guard bigint, reason text,
        lock_delay_seconds int, detail jsonb, renewed_at timestamptz, session_id uuid
    )
    LEFT JOIN LATERAL (
        SELECT * FROM octo_live_token WHERE octo_live_token.digest = decode(request.digest, 'hex') LIMIT 1
    ) AS live ON true
    LEFT JOIN octo_space AS space ON request.digest IS NULL AND space.id = request.space_id
    LEFT JOIN octo_session AS session
        ON session.id = request.session_id AND (request.digest IS NULL OR session.token_id = live.token_id)
),
seen AS MATERIALIZED (
    SELECT caller.*, lock.id, lock.last_waiter_id
    FROM caller
    CROSS JOIN LATERAL (
        SELECT id, last_waiter_id FROM octo_lock
        WHERE octo_lock.space_id = caller.space_id AND octo_lock.name = caller.name LIMIT 1
    ) AS lock
    WHERE caller.refusal IS NULL AND caller.ending IS DISTINCT FROM 'session'
    UNION ALL
    SELECT caller.*, lock.id, lock.last_waiter_id
    FROM caller
    JOIN octo_lock AS lock ON lock.session_id = caller.session_id
    WHERE caller.refusal IS NULL AND lock.bound_session_id IS NOT NULL
),
-- Each lock once, with whoever was the first to ask us to look at it.
locked AS MATERIALIZED (
    SELECT lock.*, first.last_waiter_id AS seen_last_waiter, first.channel AS seen_channel, first.request_id AS seen_request_id,
        first.session_id AS ends_with
    FROM (SELECT DISTINCT ON (id) * FROM seen ORDER BY id, n) AS first
    JOIN octo_lock AS lock ON lock.id = first.id
    ORDER BY lock.space_id, lock.name
    FOR NO KEY UPDATE OF lock
),
tie AS MATERIALIZED (
    SELECT session.id, session.ended_at, session.expires_at
    FROM octo_session AS session
    WHERE session.id = ANY (ARRAY(SELECT bound_session_id FROM locked WHERE bound_session_id IS NOT NULL AND ends_with IS NULL))
    ORDER BY session.id
    FOR SHARE
),
-- The session that is to end, once its locks are locked.
leaving AS MATERIALIZED (
    SELECT session.*
    FROM octo_session AS session
    WHERE session.id = (SELECT session_id FROM caller WHERE refusal IS NULL AND session_id IS NOT NULL)
      AND (SELECT count(*) FROM locked) >= 0
    FOR NO KEY UPDATE
),
clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now, locks, sessions, ending
    FROM (SELECT count(*) AS locks FROM locked) AS all_locked
    CROSS JOIN (SELECT count(*) AS sessions FROM tie) AS all_looked_at
    CROSS JOIN (SELECT count(*) AS ending FROM leaving) AS all_to_end
),
-- Until when the sessions live: what a token ends, ends now.
lifetime AS MATERIALIZED (
    SELECT id, ended_at, expires_at FROM tie
    UNION ALL
    SELECT
        leaving.id,
        CASE WHEN caller.actor_id IS NULL THEN leaving.ended_at ELSE least(leaving.ended_at, clock.now) END,
        leaving.expires_at
    FROM leaving
    CROSS JOIN clock
    JOIN caller ON caller.session_id = leaving.id
),
standing AS MATERIALIZED (
    SELECT
        locked.*, clock.now, space.team_id, space.archived_at,
        least(locked.expires_at, session.ended_at, session.expires_at) AS effective_expires_at,
        session.ended_at AS session_ended_at, session.expires_at AS session_expires_at,
        -- It was tied after our snapshot, to a session that is younger than that.
        locked.bound_session_id IS NOT NULL AND session.id IS NULL AS is_unknown
    FROM locked
    CROSS JOIN clock
    JOIN octo_space AS space ON space.id = locked.space_id
    LEFT JOIN lifetime AS session ON session.id = locked.bound_session_id
    WHERE locked.ends_with IS NULL OR locked.bound_session_id = locked.ends_with
),
judged AS MATERIALIZED (
    SELECT
        seen.*,
        CASE
            WHEN standing.is_unknown THEN 'retry'
            WHEN seen.ending IS NULL THEN 'lease_ended'
            WHEN standing.lease_id IS NULL OR standing.effective_expires_at <= standing.now THEN 'not_held'
            WHEN seen.ending <> 'force' AND standing.lease_id IS DISTINCT FROM seen.lease_id THEN 'held_by_another'
            -- A retry with the same key has asked for it since, and has it now.
            WHEN seen.ending = 'leave' AND standing.renewed_at > coalesce(seen.renewed_at, standing.acquired_at)
                THEN 'held_by_another'
            WHEN seen.guard <> standing.fencing_token THEN 'fencing_mismatch'
            ELSE 'released'
        END AS verdict
    FROM seen
    JOIN standing USING (id)
    WHERE seen.session_id IS NULL
),
-- Of several requests to end one lease the first does, and the others come too late.
wanted AS MATERIALIZED (
    SELECT DISTINCT ON (id) * FROM judged WHERE verdict = 'released' ORDER BY id, n
),
-- Which leases are over, how each ended, and when: a session that was ended gives its locks back, one that ran out lets
-- them run out. From here on each step carries what the later ones need: planned for few locks, joins between them would be
-- nested loops, and a session may have thousands.
outcome AS MATERIALIZED (
    SELECT
        standing.*, wanted.n, wanted.ending, wanted.reason AS wanted_reason, wanted.actor_kind, wanted.actor_id,
        wanted.actor_name, wanted.address, wanted.detail,
        coalesce(wanted.channel, standing.seen_channel) AS channel,
        coalesce(wanted.request_id, standing.seen_request_id) AS request_id,
        coalesce(wanted.lock_delay_seconds, standing.lock_delay_seconds) AS delay_seconds,
        CASE WHEN wanted.n IS NOT NULL THEN standing.now
             ELSE greatest(standing.effective_expires_at, standing.acquired_at) END AS over_at,
        standing.lease_id IS NOT NULL AND NOT standing.is_unknown
            AND (wanted.n IS NOT NULL OR standing.effective_expires_at <= standing.now) AS has_ended
    FROM standing
    LEFT JOIN wanted USING (id)
),
ended AS MATERIALIZED (
    SELECT
        outcome.*,
        CASE
            WHEN ending = 'force' THEN 'force_released'
            WHEN n IS NOT NULL OR session_ended_at <= effective_expires_at THEN 'released'
            ELSE 'expired'
        END AS kind,
        CASE
            WHEN ending = 'leave' THEN 'whoever waited for it had gone'
            WHEN n IS NOT NULL THEN wanted_reason
            WHEN session_ended_at <= effective_expires_at THEN 'its session was ended'
            WHEN session_expires_at <= effective_expires_at THEN 'its session ran out'
            WHEN EXISTS (
                SELECT FROM octo_waiter AS waiter
                WHERE waiter.space_id = outcome.space_id AND waiter.name = outcome.name
                  AND waiter.handed_lease_id = outcome.lease_id
            ) THEN 'handed on, but not picked up'
        END AS reason
    FROM outcome
    WHERE has_ended
),
-- The locks that are free now, until when they stay closed, and who is next where they do not.
free AS MATERIALIZED (
    SELECT
        id, space_id, name, now, team_id, archived_at, fencing_token, last_waiter_id, seen_last_waiter, delay_seconds,
        has_ended,
        CASE WHEN has_ended THEN over_at + nullif(delay_seconds, 0) * interval '1 second'
             ELSE available_at END AS available_at
    FROM outcome
    WHERE has_ended OR lease_id IS NULL
),
served AS MATERIALIZED (
    SELECT
        free.id, free.space_id, free.name, free.now, free.team_id, free.fencing_token, free.last_waiter_id,
        free.delay_seconds, free.has_ended, free.available_at,
        free.last_waiter_id IS NOT NULL AND coalesce(free.available_at <= free.now, true) AS is_open,
        free.last_waiter_id IS DISTINCT FROM free.seen_last_waiter AS was_joined,
        first.*,
        CASE WHEN first.waiter_id IS NOT NULL THEN gen_random_uuid() END AS new_lease_id,
        CASE WHEN first.waiter_id IS NOT NULL THEN octo_next_fencing_token(free.fencing_token, free.now)
             END AS new_fencing_token,
        octo_holder_id(first.public_id, first.session_id) AS new_holder_id,
        -- PICK_UP_SECONDS in locks/engine/line.py; and a millisecond for each lock that may be handed on along with it,
        -- since the clock was read before all of them.
        CASE WHEN first.waiter_id IS NOT NULL THEN free.now + interval '700 milliseconds' + interval '1 millisecond' * (
            SELECT count(*) - 1 FROM free AS along WHERE along.last_waiter_id IS NOT NULL) END AS until
    FROM free
    LEFT JOIN LATERAL (
        SELECT
            waiter.id AS waiter_id, waiter.server_id, waiter.token_id, waiter.session_id, waiter.bound_session_id, waiter.owner,
            waiter.metadata, waiter.ttl_seconds, waiter.lock_delay_seconds, waiter.idempotency_digest,
            waiter.request_digest, waiter.request_id, waiter.channel, waiter.address, waiter.enqueued_at,
            token.public_id, token.name AS token_name
        FROM octo_waiter AS waiter
        JOIN octo_token AS token ON token.id = waiter.token_id
        WHERE free.last_waiter_id IS NOT NULL
          AND coalesce(free.available_at <= free.now, true)
          AND free.archived_at IS NULL
          AND waiter.space_id = free.space_id
          AND waiter.name = free.name
          AND waiter.handed_lease_id IS NULL
          AND waiter.deadline_at > free.now
          -- SILENT_SECONDS in locks/engine/line.py.
          AND EXISTS (
              SELECT FROM octo_server_process AS server
              WHERE server.id = waiter.server_id
                AND server.last_heartbeat_at > statement_timestamp() - interval '900 milliseconds')
          AND token.revoked_at IS NULL
          AND coalesce(token.expires_at > free.now, true)
          AND 'locks:write' = ANY (token.scopes)
          AND octo_name_matches_prefixes(waiter.name, token.prefixes)
          AND (waiter.session_id IS NULL OR EXISTS (
              SELECT FROM octo_session AS session
              WHERE session.id = waiter.session_id AND session.ended_at IS NULL AND session.expires_at > free.now
                AND session.id IS DISTINCT FROM (SELECT id FROM leaving)))
        ORDER BY waiter.queue_seq, waiter.id
        LIMIT 1
        FOR UPDATE OF waiter
    ) AS first ON true
),
next AS MATERIALIZED (
    SELECT * FROM served WHERE waiter_id IS NOT NULL
),
changed AS (
    UPDATE octo_lock AS lock SET
        fencing_token = coalesce(served.new_fencing_token, served.fencing_token),
        lease_id = served.new_lease_id,
        holder_id = served.new_holder_id,
        token_id = served.token_id,
        session_id = served.session_id,
        bound_session_id = served.bound_session_id,
        owner = served.owner,
        metadata = served.metadata,
        ttl_seconds = served.ttl_seconds,
        acquired_at = CASE WHEN served.waiter_id IS NOT NULL THEN served.now END,
        renewed_at = CASE WHEN served.waiter_id IS NOT NULL THEN served.now END,
        expires_at = served.until,
        renewals = CASE WHEN served.waiter_id IS NOT NULL THEN 0 END,
        idempotency_digest = served.idempotency_digest,
        request_digest = served.request_digest,
        next_sweep_at = served.until,
        lock_delay_seconds = coalesce(served.lock_delay_seconds, served.delay_seconds),
        available_at = CASE WHEN served.waiter_id IS NULL THEN served.available_at END,
        -- Where nobody in line is there any more, and nobody has joined since, there is no line.
        last_waiter_id = CASE
            WHEN served.waiter_id IS NOT NULL OR served.was_joined OR NOT served.is_open THEN served.last_waiter_id END,
        updated_at = served.now
    FROM served
    WHERE lock.id = served.id
      AND (served.has_ended OR served.waiter_id IS NOT NULL OR served.is_open AND NOT served.was_joined)
),
handed AS (
    UPDATE octo_waiter AS waiter SET handed_lease_id = next.new_lease_id FROM next WHERE waiter.id = next.waiter_id
),
-- Those who have gone leave the line, and so does whoever did not pick up what it was handed.
removed AS (
    DELETE FROM octo_waiter AS waiter
    USING (
        SELECT space_id, name, NULL::uuid AS lease_id FROM served
        WHERE is_open AND NOT was_joined AND waiter_id IS NULL
        UNION ALL
        SELECT space_id, name, lease_id FROM ended WHERE last_waiter_id IS NOT NULL
    ) AS gone
    WHERE waiter.space_id = gone.space_id AND waiter.name = gone.name
      AND waiter.handed_lease_id IS NOT DISTINCT FROM gone.lease_id
),
closed AS (
    UPDATE octo_session AS session SET
        ended_at = lifetime.ended_at,
        next_sweep_at = CASE WHEN caller.actor_id IS NOT NULL THEN least(leaving.next_sweep_at, clock.now) END
    FROM leaving
    JOIN lifetime USING (id)
    JOIN caller ON caller.session_id = leaving.id
    CROSS JOIN clock
    WHERE session.id = leaving.id
      AND CASE
          WHEN caller.actor_id IS NOT NULL THEN leaving.ended_at IS NULL AND leaving.expires_at > clock.now
          ELSE leaving.next_sweep_at IS NOT NULL AND least(leaving.ended_at, leaving.expires_at) <= clock.now
      END
    RETURNING
        session.id, session.space_id, session.owner, session.metadata, session.token_id, session.created_at,
        least(session.ended_at, session.expires_at) AS over_at,
        CASE WHEN caller.actor_id IS NOT NULL THEN 'session_ended'
             WHEN leaving.ended_at IS NULL THEN 'session_expired' END AS kind
),
-- It leaves every line. What it was handed there and has not picked up ends with its other locks.
waited AS MATERIALIZED (
    SELECT waiter.id
    FROM octo_waiter AS waiter
    JOIN lifetime ON lifetime.id = waiter.session_id
    JOIN leaving ON leaving.id = lifetime.id
    CROSS JOIN clock
    WHERE waiter.handed_lease_id IS NULL AND least(lifetime.ended_at, lifetime.expires_at) <= clock.now
    FOR UPDATE OF waiter SKIP LOCKED
),
left_line AS (
    DELETE FROM octo_waiter AS waiter USING waited WHERE waiter.id = waited.id
),
recorded AS (
    INSERT INTO octo_event (
        at, kind, team_id, space_id, lock_name, fencing_token, owner, holder_id, metadata, token_id, actor_kind,
        actor_id, actor_name, channel, address, request_id, reason, held_ms, recorded_late_ms, detail
    )
    SELECT
        at, kind, team_id, space_id, name, fencing_token, owner, holder_id, metadata, token_id, actor_kind,
        actor_id, actor_name, channel, address, request_id, reason, held_ms, recorded_late_ms, detail
    FROM (
        SELECT
            1 AS step, ended.now AS at, ended.kind, ended.team_id, ended.space_id, ended.name, ended.fencing_token,
            ended.owner, ended.holder_id, ended.metadata, ended.token_id,
            CASE WHEN ended.kind = 'expired' THEN 'system' ELSE coalesce(ended.actor_kind, 'token') END AS actor_kind,
            -- A session and a waiting request are their token's: what ends with them, it ended.
            CASE WHEN ended.kind = 'expired' THEN NULL WHEN ended.actor_name IS NULL THEN ended.token_id
                 ELSE ended.actor_id END AS actor_id,
            CASE WHEN ended.kind = 'expired' THEN 'expiry'
                 ELSE coalesce(ended.actor_name, token.name, 'session') END AS actor_name,
            ended.channel, ended.address, ended.request_id, ended.reason,
            octo_interval_ms(ended.over_at - ended.acquired_at) AS held_ms,
            CASE WHEN ended.kind = 'expired' THEN octo_interval_ms(ended.now - ended.over_at) END AS recorded_late_ms,
            ended.detail
        FROM ended
        LEFT JOIN octo_token AS token ON token.id = ended.token_id
        UNION ALL
        SELECT
            2, next.now, 'acquired', next.team_id, next.space_id, next.name, next.new_fencing_token, next.owner,
            next.new_holder_id, next.metadata, next.token_id, 'token', next.token_id, next.token_name, next.channel,
            next.address, next.request_id, NULL, NULL, NULL,
            jsonb_build_object('waited_ms', octo_interval_ms(next.now - next.enqueued_at))
        FROM next
        UNION ALL
        SELECT
            3, clock.now, closed.kind, space.team_id, closed.space_id, NULL, NULL, closed.owner,
            octo_holder_id(token.public_id, closed.id), closed.metadata, closed.token_id,
            CASE WHEN caller.actor_id IS NULL THEN 'system' ELSE 'token' END, caller.actor_id,
            coalesce(caller.actor_name, 'expiry'), caller.channel, caller.address, caller.request_id, NULL,
            octo_interval_ms(closed.over_at - closed.created_at),
            CASE WHEN caller.actor_id IS NULL THEN octo_interval_ms(clock.now - closed.over_at) END,
            NULL
        FROM closed
        JOIN caller ON caller.session_id = closed.id
        LEFT JOIN octo_token AS token ON token.id = closed.token_id
        JOIN octo_space AS space ON space.id = closed.space_id
        CROSS JOIN clock
        WHERE closed.kind IS NOT NULL
    ) AS history
    ORDER BY space_id, name NULLS FIRST, step
    RETURNING id, kind, space_id, lock_name
),
-- Only here, where somebody waits: a commit that notifies takes a lock that all such commits share.
told AS MATERIALIZED (
    SELECT count(*)::int AS servers
    FROM (SELECT DISTINCT server_id FROM next) AS server
    CROSS JOIN LATERAL (SELECT pg_notify('octo_turn_' || replace(server.server_id::text, '-', ''), '')) AS notified
)
SELECT
    caller.n,
    CASE
        WHEN caller.refusal IS NOT NULL THEN caller.refusal
        WHEN caller.ending = 'session' THEN
            CASE
                WHEN closed.id IS NOT NULL THEN 'ended'
                WHEN leaving.id IS NOT NULL THEN 'session_over'
                ELSE 'no_session'
            END
        WHEN judged.verdict = 'released' AND judged.n <> wanted.n THEN 'not_held'
        WHEN judged.n IS NOT NULL THEN judged.verdict
        WHEN seen.n IS NOT NULL THEN 'retry'
        WHEN caller.ending IS NULL THEN 'lease_ended'
        ELSE 'not_held'
    END AS verdict,
    caller.name,
    caller.lease_id,
    ended.fencing_token,
    ended.owner,
    ended.metadata,
    ended.acquired_at,
    ended.effective_expires_at AS expires_at,
    free.available_at,
    recorded.id AS event_id,
    (
        SELECT array_agg(served.name) FROM served
        WHERE served.is_open AND served.was_joined AND served.waiter_id IS NULL
    ) AS raced,
    told.servers,
    clock_timestamp() AS now,
    caller.space_id,
    caller.requests_per_second
FROM caller
CROSS JOIN told
LEFT JOIN seen ON seen.n = caller.n AND seen.session_id IS NULL
LEFT JOIN judged ON judged.n = caller.n
LEFT JOIN wanted ON wanted.id = judged.id
LEFT JOIN ended ON ended.n = caller.n
LEFT JOIN free ON free.id = seen.id
LEFT JOIN leaving ON leaving.id = caller.session_id
LEFT JOIN closed ON closed.id = caller.session_id
LEFT JOIN recorded ON recorded.kind = 'force_released'
    AND recorded.space_id = caller.space_id AND recorded.lock_name = caller.name AND ended.n IS NOT NULL
ORDER BY caller.n
