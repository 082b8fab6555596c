-- Settle: ends what is over, or is to be ended, and hands each open lock to the first in line. One row a request.
--
-- $1 is a JSON array of requests.Settle: `ending` is how the lease is to end (release, force, or leave: by whoever stood in
-- line for it and has gone), or null to end only what is over anyway. The plain statements come here for every lock that
-- is tied to a session which may be dead, or for which somebody may be in line.
--
-- Who is over. Sessions are looked at after all locks are locked, in the order of their ids, and FOR SHARE: a keepalive
-- that is under way is waited for and counts, and one that comes later waits for us and finds the session over. So nobody
-- can prolong a session between our look at the clock and our commit. The clock comes after that.
--
-- Who is next. `last_waiter` is read on the locked row, the line in the snapshot. Whoever joins locks the row first, and
-- ids are given out under that lock, so whoever the snapshot does not show came later than all whom it shows: the first
-- that is shown, and still there (FOR UPDATE passes over whoever has left), is next. Only where the snapshot shows nobody
-- and `last_waiter` has moved since, the answer is `raced`, and the lock is settled once more. Somebody is in line as long
-- as the server that holds the request says so and the token and session are good; whether it does is asked for the time
-- of the snapshot, since a statement that had to wait knows nothing later.
--
-- What is handed on is a lease like any other, except that it runs out soon unless it is picked up (pick_up.sql).
--
-- Order of locking, everywhere: locks by (space, name), then sessions by id, then waiters.
WITH caller AS MATERIALIZED (
    SELECT
        request.n, request.name, request.ending, request.lease_id, request.guard, request.reason,
        request.lock_delay_seconds, request.request_id, request.channel, request.address, request.detail,
        request.renewed_at,
        coalesce(live.space_id, space.id) AS space_id,
        CASE WHEN request.ending <> 'leave' THEN coalesce(live.token_id, request.actor_id) END AS actor_id,
        CASE WHEN request.ending <> 'leave' THEN coalesce(live.token_name, request.actor_name) END AS actor_name,
        CASE WHEN request.digest IS NULL THEN request.actor_kind ELSE 'token' END AS actor_kind,
        live.requests_per_second,
        CASE
            WHEN request.digest IS NULL THEN CASE WHEN space.id IS NULL THEN 'no_lease' END
            WHEN live.token_id IS NULL THEN 'unauthenticated'
            WHEN request.ending = 'release' AND NOT 'locks:write' = ANY (live.scopes) THEN 'scope_missing'
            WHEN request.ending = 'force' AND NOT 'locks:force' = ANY (live.scopes) THEN 'scope_missing'
            WHEN NOT octo_name_is_within(request.name, live.prefixes) THEN 'name_not_allowed'
        END AS refusal
    FROM json_to_recordset($1::json) AS request (
        n int, digest text, space_id bigint, actor_kind text, actor_id bigint, actor_name text, request_id text,
        channel text, address inet, name text COLLATE "C", ending text, lease_id uuid, guard bigint, reason text,
        lock_delay_seconds int, detail jsonb, renewed_at timestamptz
    )
    LEFT JOIN LATERAL (
        SELECT * FROM octo_live_token WHERE octo_live_token.digest = decode(request.digest, 'hex') LIMIT 1
    ) AS live ON true
    LEFT JOIN octo_space AS space ON request.digest IS NULL AND space.id = request.space_id
),
seen AS MATERIALIZED (
    SELECT caller.*, lock.id, lock.last_waiter
    FROM caller
    CROSS JOIN LATERAL (
        SELECT id, last_waiter FROM octo_lock
        WHERE octo_lock.space_id = caller.space_id AND octo_lock.name = caller.name LIMIT 1
    ) AS lock
    WHERE caller.refusal IS NULL
),
-- Each lock once, with whoever was the first to ask us to look at it.
locked AS MATERIALIZED (
    SELECT lock.*, first.last_waiter AS seen_last_waiter, first.channel, first.request_id
    FROM (SELECT DISTINCT ON (id) * FROM seen ORDER BY id, n) AS first
    JOIN octo_lock AS lock ON lock.id = first.id
    ORDER BY lock.space_id, lock.name
    FOR NO KEY UPDATE OF lock
),
tie AS MATERIALIZED (
    SELECT session.id, session.ended_at, session.expires_at
    FROM octo_session AS session
    WHERE session.id = ANY (ARRAY(SELECT tied_to FROM locked WHERE tied_to IS NOT NULL))
    ORDER BY session.id
    FOR SHARE
),
clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now, locks, sessions
    FROM (SELECT count(*) AS locks FROM locked) AS all_locked
    CROSS JOIN (SELECT count(*) AS sessions FROM tie) AS all_looked_at
),
standing AS MATERIALIZED (
    SELECT
        locked.*, clock.now, space.team_id,
        least(locked.expires_at, tie.ended_at, tie.expires_at) AS lives_until,
        tie.ended_at AS session_ended_at, tie.expires_at AS session_expires_at,
        -- It was tied after our snapshot, to a session that is younger than that.
        locked.tied_to IS NOT NULL AND tie.id IS NULL AS is_unknown
    FROM locked
    CROSS JOIN clock
    JOIN octo_space AS space ON space.id = locked.space_id
    LEFT JOIN tie ON tie.id = locked.tied_to
),
judged AS MATERIALIZED (
    SELECT
        seen.*,
        CASE
            WHEN standing.is_unknown THEN 'again'
            WHEN seen.ending IS NULL THEN 'settled'
            WHEN standing.lease_id IS NULL OR standing.lives_until <= standing.now THEN 'no_lease'
            WHEN seen.ending <> 'force' AND standing.lease_id IS DISTINCT FROM seen.lease_id THEN 'held_by_another'
            -- A retry with the same key has asked for it since, and has it now.
            WHEN seen.ending = 'leave' AND standing.renewed_at > coalesce(seen.renewed_at, standing.acquired_at)
                THEN 'held_by_another'
            WHEN seen.guard <> standing.fencing_token THEN 'changed_hands'
            ELSE 'released'
        END AS verdict
    FROM seen
    JOIN standing USING (id)
),
-- Of several requests to end one lease the first does, and the others come too late.
wanted AS MATERIALIZED (
    SELECT DISTINCT ON (id) * FROM judged WHERE verdict = 'released' ORDER BY id, n
),
-- How each lease ended, and when: a session that was ended gives its locks back, one that ran out lets them run out.
ended AS MATERIALIZED (
    SELECT
        standing.id, wanted.n, standing.now, standing.team_id, standing.space_id, standing.name, standing.lease_id,
        standing.fencing_token, standing.owner, standing.holder_id, standing.metadata, standing.token_id,
        standing.acquired_at, standing.expires_at,
        CASE
            WHEN wanted.ending = 'force' THEN 'force_released'
            WHEN wanted.n IS NOT NULL OR standing.session_ended_at <= standing.lives_until THEN 'released'
            ELSE 'expired'
        END AS kind,
        CASE WHEN wanted.n IS NOT NULL THEN standing.now
             ELSE greatest(standing.lives_until, standing.acquired_at) END AS over_at,
        CASE
            WHEN wanted.ending = 'leave' THEN 'whoever waited for it had gone'
            WHEN wanted.n IS NOT NULL THEN wanted.reason
            WHEN standing.session_ended_at <= standing.lives_until THEN 'its session was ended'
            WHEN standing.session_expires_at <= standing.lives_until THEN 'its session ran out'
            WHEN EXISTS (
                SELECT FROM octo_waiter AS waiter
                WHERE waiter.space_id = standing.space_id AND waiter.name = standing.name
                  AND waiter.lease_id = standing.lease_id
            ) THEN 'handed on, but not picked up'
        END AS reason,
        wanted.actor_kind, wanted.actor_id, wanted.actor_name, wanted.address, wanted.detail,
        coalesce(wanted.channel, standing.channel) AS channel,
        coalesce(wanted.request_id, standing.request_id) AS request_id,
        coalesce(wanted.lock_delay_seconds, standing.lock_delay_seconds) AS delay_seconds
    FROM standing
    LEFT JOIN wanted USING (id)
    WHERE standing.lease_id IS NOT NULL
      AND NOT standing.is_unknown
      AND (wanted.n IS NOT NULL OR standing.lives_until <= standing.now)
),
-- The locks that are free now, and until when they stay closed.
free AS MATERIALIZED (
    SELECT
        standing.id, standing.space_id, standing.name, standing.now, standing.team_id, standing.fencing_token,
        standing.last_waiter, standing.seen_last_waiter,
        coalesce(ended.delay_seconds, standing.lock_delay_seconds) AS delay_seconds,
        CASE WHEN ended.id IS NULL THEN standing.available_at
             ELSE ended.over_at + nullif(ended.delay_seconds, 0) * interval '1 second' END AS available_at,
        ended.id IS NOT NULL AS has_ended
    FROM standing
    LEFT JOIN ended USING (id)
    WHERE standing.lease_id IS NULL OR ended.id IS NOT NULL
),
open AS MATERIALIZED (
    SELECT * FROM free WHERE last_waiter IS NOT NULL AND coalesce(available_at <= now, true)
),
next AS MATERIALIZED (
    SELECT
        open.id AS lock_id, open.space_id, open.name, open.now, open.team_id, first.*,
        gen_random_uuid() AS new_lease_id,
        octo_next_fencing_token(open.fencing_token, open.now) AS new_fencing_token,
        octo_holder_id(first.public_id, first.session_id) AS new_holder_id,
        -- PICK_UP_SECONDS in locks/engine/line.py.
        open.now + interval '850 milliseconds' AS until
    FROM open
    CROSS JOIN LATERAL (
        SELECT
            waiter.id AS waiter_id, waiter.server_id, waiter.token_id, waiter.session_id, waiter.tied_to, waiter.owner,
            waiter.metadata, waiter.ttl_seconds, waiter.lock_delay_seconds, waiter.idempotency_digest,
            waiter.request_digest, waiter.request_id, waiter.channel, waiter.address, waiter.waiting_since,
            token.public_id, token.name AS token_name
        FROM octo_waiter AS waiter
        JOIN octo_token AS token ON token.id = waiter.token_id
        WHERE waiter.space_id = open.space_id
          AND waiter.name = open.name
          AND waiter.lease_id IS NULL
          AND waiter.gives_up_at > open.now
          -- SILENT_SECONDS in locks/engine/line.py.
          AND EXISTS (
              SELECT FROM octo_server AS server
              WHERE server.id = waiter.server_id
                AND server.seen_at > statement_timestamp() - interval '900 milliseconds')
          AND token.revoked_at IS NULL
          AND coalesce(token.expires_at > open.now, true)
          AND (waiter.session_id IS NULL OR EXISTS (
              SELECT FROM octo_session AS session
              WHERE session.id = waiter.session_id AND session.ended_at IS NULL AND session.expires_at > open.now))
        ORDER BY waiter.arrival, waiter.id
        LIMIT 1
        FOR UPDATE OF waiter
    ) AS first
),
-- Nobody in line is there any more, and nobody has joined since.
deserted AS MATERIALIZED (
    SELECT id, space_id, name FROM open
    WHERE last_waiter = seen_last_waiter AND id NOT IN (SELECT lock_id FROM next)
),
changed AS (
    UPDATE octo_lock AS lock SET
        fencing_token = coalesce(next.new_fencing_token, free.fencing_token),
        lease_id = next.new_lease_id,
        holder_id = next.new_holder_id,
        token_id = next.token_id,
        session_id = next.session_id,
        tied_to = next.tied_to,
        owner = next.owner,
        metadata = next.metadata,
        ttl_seconds = next.ttl_seconds,
        acquired_at = next.now,
        renewed_at = next.now,
        expires_at = next.until,
        renewals = CASE WHEN next.lock_id IS NOT NULL THEN 0 END,
        idempotency_digest = next.idempotency_digest,
        request_digest = next.request_digest,
        sweep_at = next.until,
        lock_delay_seconds = coalesce(next.lock_delay_seconds, free.delay_seconds),
        available_at = CASE WHEN next.lock_id IS NULL THEN free.available_at END,
        last_waiter = CASE WHEN deserted.id IS NULL THEN free.last_waiter END,
        changed_at = free.now
    FROM free
    LEFT JOIN next ON next.lock_id = free.id
    LEFT JOIN deserted ON deserted.id = free.id
    WHERE lock.id = free.id AND (free.has_ended OR next.lock_id IS NOT NULL OR deserted.id IS NOT NULL)
),
handed AS (
    UPDATE octo_waiter AS waiter SET lease_id = next.new_lease_id FROM next WHERE waiter.id = next.waiter_id
),
-- Those who have gone leave the line, and so does whoever did not pick up what it was handed.
removed AS (
    DELETE FROM octo_waiter AS waiter
    USING (
        SELECT space_id, name, NULL::uuid AS lease_id FROM deserted
        UNION ALL
        SELECT space_id, name, lease_id FROM ended
    ) AS gone
    WHERE waiter.space_id = gone.space_id AND waiter.name = gone.name
      AND waiter.lease_id IS NOT DISTINCT FROM gone.lease_id
),
recorded AS (
    INSERT INTO octo_event (
        at, kind, team_id, space_id, lock_name, fencing_token, owner, holder_id, metadata, token_id, actor_kind,
        actor_id, actor_name, channel, address, request_id, reason, held_ms, overdue_ms, detail
    )
    SELECT
        at, kind, team_id, space_id, name, fencing_token, owner, holder_id, metadata, token_id, actor_kind,
        actor_id, actor_name, channel, address, request_id, reason, held_ms, overdue_ms, detail
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
            octo_ms(ended.over_at - ended.acquired_at) AS held_ms,
            CASE WHEN ended.kind = 'expired' THEN octo_ms(ended.now - ended.over_at) END AS overdue_ms,
            ended.detail
        FROM ended
        LEFT JOIN octo_token AS token ON token.id = ended.token_id
        UNION ALL
        SELECT
            2, next.now, 'acquired', next.team_id, next.space_id, next.name, next.new_fencing_token, next.owner,
            next.new_holder_id, next.metadata, next.token_id, 'token', next.token_id, next.token_name, next.channel,
            next.address, next.request_id, NULL, NULL, NULL,
            jsonb_build_object('waited_ms', octo_ms(next.now - next.waiting_since))
        FROM next
    ) AS history
    ORDER BY space_id, name, step
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
        WHEN judged.verdict = 'released' AND judged.n <> wanted.n THEN 'no_lease'
        WHEN judged.n IS NOT NULL THEN judged.verdict
        WHEN seen.n IS NOT NULL THEN 'again'
        WHEN caller.ending IS NULL THEN 'settled'
        ELSE 'no_lease'
    END AS verdict,
    caller.name,
    caller.lease_id,
    ended.fencing_token,
    ended.owner,
    ended.metadata,
    ended.acquired_at,
    ended.expires_at,
    free.available_at,
    recorded.id AS event_id,
    coalesce(
        open.id IS NOT NULL AND next.lock_id IS NULL AND open.last_waiter IS DISTINCT FROM open.seen_last_waiter, false
    ) AS raced,
    told.servers,
    clock_timestamp() AS now,
    caller.space_id,
    caller.requests_per_second
FROM caller
CROSS JOIN told
LEFT JOIN seen USING (n)
LEFT JOIN judged USING (n)
LEFT JOIN wanted ON wanted.id = judged.id
LEFT JOIN ended ON ended.n = caller.n
LEFT JOIN free ON free.id = seen.id
LEFT JOIN open ON open.id = seen.id
LEFT JOIN next ON next.lock_id = seen.id
LEFT JOIN recorded ON recorded.kind = 'force_released'
    AND recorded.space_id = caller.space_id AND recorded.lock_name = caller.name AND ended.n IS NOT NULL
ORDER BY caller.n
