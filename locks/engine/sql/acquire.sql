-- Acquire: one row for each request of the batch, in its order.
--
-- $1 is a JSON array of requests.Acquire.
--
-- Why a statement that had to wait is right. A name that is plainly held is answered from the snapshot: it was
-- held while the request was under way, and nobody has to wait to be told. All others are decided on `locked`:
-- there FOR UPDATE waits for whoever is changing the row and then yields the row as they left it, not as the
-- snapshot saw it, so a lease that was renewed meanwhile counts as renewed. `clock` is read only once all rows are
-- locked, so time spent waiting is time passed: a lease that ran out meanwhile is over, and a new one starts at
-- the end of the wait. A name that has no row is inserted; if somebody else inserted it first, nothing is changed
-- and the verdict is `again`: the next statement has a snapshot that shows it. After `clock` only an insert can have
-- waited, and in the end only for one that was rolled back; what has run out by then, at `finish`, goes again too.
--
-- Why batches cannot deadlock. Rows are locked in (space, name) order, and all of them before the first insert,
-- which follow in the same order. So whoever waits for a row holds only lower ones and has inserted nothing, and
-- whoever waits for an insert waits for somebody whose remaining inserts are higher. Every statement sorts names by
-- the collation of the column, whatever the database's own.
--
-- Sessions and lines. `effective_expires_at` is when a lease is over: by its own expiry, or with the session it is tied to. The
-- snapshot's session can only be too pessimistic about a lease that lives (a keepalive never shortens), so it is good
-- enough to say `held`, and not to say `over`: a lease that seems to have died with its session, and an open name where
-- somebody may be in line, get the verdict `settle` and nothing is changed. end_and_hand_over.sql then finds out, on locked rows,
-- and ends it or hands it on; after that the request goes again.
--
-- Every CTE carries what the later ones need: planned for few requests, joins between them would be nested loops.
WITH caller AS MATERIALIZED (
    SELECT
        request.n, request.request_id, request.channel, request.address, request.name, request.metadata,
        request.lock_delay_seconds, request.session_id,
        CASE WHEN request.ephemeral THEN request.session_id END AS bound_session_id,
        session.effective_expires_at AS session_until,
        decode(request.idempotency_digest, 'hex') AS idempotency_digest,
        decode(request.request_digest, 'hex') AS request_digest,
        coalesce(request.owner, session.owner, live.token_name) AS owner,
        coalesce(request.ttl_seconds, live.default_ttl_seconds) AS ttl_seconds,
        live.token_id, live.public_id, live.token_name, live.space_id, live.team_id, live.max_ttl_seconds,
        live.max_hold_seconds, live.max_metadata_length, live.dedupe_by_metadata, live.requests_per_second,
        live.space_is_full,
        CASE
            WHEN live.token_id IS NULL THEN 'unauthenticated'
            WHEN NOT 'locks:write' = ANY (live.scopes) THEN 'scope_missing'
            WHEN NOT octo_name_matches_prefixes(request.name, live.prefixes) THEN 'name_not_allowed'
            WHEN request.ttl_seconds > live.max_ttl_seconds THEN 'ttl_too_long'
            WHEN char_length(request.metadata) > live.max_metadata_length THEN 'metadata_too_long'
            WHEN request.session_id IS NOT NULL AND session.effective_expires_at IS NULL THEN 'no_session'
            WHEN session.effective_expires_at <= clock_timestamp() THEN 'session_over'
        END AS refusal
    FROM json_to_recordset($1::json) AS request (
        n int, digest text, request_id text, channel text, address inet,
        name text COLLATE "C", ttl_seconds int, metadata text, owner text, lock_delay_seconds int,
        session_id uuid, ephemeral boolean, idempotency_digest text, request_digest text
    )
    LEFT JOIN LATERAL (
        SELECT * FROM octo_live_token WHERE octo_live_token.digest = decode(request.digest, 'hex') LIMIT 1
    ) AS live ON true
    LEFT JOIN LATERAL (
        -- By its id alone: a token can have many, and this may be planned when it has none.
        SELECT token_id, owner, least(ended_at, expires_at) AS effective_expires_at FROM octo_session
        WHERE octo_session.id = request.session_id LIMIT 1
    ) AS session ON session.token_id = live.token_id
),
-- The lock as the snapshot shows it.
seen AS MATERIALIZED (
    SELECT
        caller.n, caller.request_id, caller.channel, caller.address, caller.name, caller.metadata,
        caller.lock_delay_seconds, caller.idempotency_digest, caller.request_digest, caller.owner,
        caller.ttl_seconds, caller.token_id, caller.public_id, caller.token_name, caller.space_id, caller.team_id,
        caller.max_hold_seconds, caller.dedupe_by_metadata, caller.space_is_full, caller.session_id, caller.bound_session_id,
        caller.session_until,
        CASE
            WHEN lock.effective_expires_at > clock_timestamp() THEN
                CASE
                    WHEN lock.token_id = caller.token_id AND lock.idempotency_digest = caller.idempotency_digest
                        THEN 'recognised'
                    WHEN lock.session_id = caller.session_id THEN 'recognised'
                    WHEN caller.dedupe_by_metadata AND lock.token_id = caller.token_id
                         AND lock.metadata IS NOT DISTINCT FROM caller.metadata THEN 'recognised'
                    ELSE 'held'
                END
            WHEN lock.effective_expires_at IS DISTINCT FROM lock.expires_at THEN 'unsettled'
            WHEN coalesce(lock.available_at, lock.expires_at + lock.lock_delay_seconds * interval '1 second')
                 > clock_timestamp() THEN 'delayed'
            WHEN lock.last_waiter_id IS NOT NULL THEN 'unsettled'
            ELSE 'open'
        END AS state,
        lock.id, lock.fencing_token, lock.lease_id, lock.holder_id, lock.token_id AS held_token_id,
        lock.owner AS held_owner, lock.metadata AS held_metadata, lock.acquired_at, lock.expires_at,
        lock.idempotency_digest AS held_idempotency_digest, lock.request_digest AS held_request_digest,
        lock.lock_delay_seconds AS held_delay_seconds, lock.session_id AS held_session_id, lock.last_waiter_id,
        lock.effective_expires_at,
        coalesce(lock.available_at, lock.expires_at + lock.lock_delay_seconds * interval '1 second') AS available_at
    FROM caller
    LEFT JOIN LATERAL (
        SELECT
            octo_lock.*,
            octo_effective_expiry(octo_lock.expires_at, octo_lock.bound_session_id) AS effective_expires_at
        FROM octo_lock WHERE octo_lock.space_id = caller.space_id AND octo_lock.name = caller.name LIMIT 1
    ) AS lock ON true
    WHERE caller.refusal IS NULL
),
-- The same columns, with the lock as it is now.
locked AS MATERIALIZED (
    SELECT
        seen.n, seen.request_id, seen.channel, seen.address, seen.name, seen.metadata, seen.lock_delay_seconds,
        seen.idempotency_digest, seen.request_digest, seen.owner, seen.ttl_seconds, seen.token_id, seen.public_id,
        seen.token_name, seen.space_id, seen.team_id, seen.max_hold_seconds, seen.dedupe_by_metadata,
        seen.space_is_full, seen.session_id, seen.bound_session_id, seen.session_until, seen.state,
        lock.id, lock.fencing_token, lock.lease_id, lock.holder_id, lock.token_id, lock.owner, lock.metadata,
        lock.acquired_at, lock.expires_at, lock.idempotency_digest, lock.request_digest, lock.lock_delay_seconds,
        lock.session_id, lock.last_waiter_id,
        octo_effective_expiry(lock.expires_at, lock.bound_session_id),
        coalesce(lock.available_at, lock.expires_at + lock.lock_delay_seconds * interval '1 second')
    FROM seen
    JOIN octo_lock AS lock ON lock.id = seen.id
    WHERE seen.state IN ('open', 'recognised')
    ORDER BY seen.space_id, seen.name
    FOR NO KEY UPDATE OF lock
),
clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now, waited_for FROM (SELECT count(*) AS waited_for FROM locked) AS all_locked
),
-- Without a verdict: to go again. Of several requests for an open name the first has its turn. Only a lease that the
-- snapshot shows is kept: an update is first tried, and its constraints checked, on the row of the snapshot.
decided AS MATERIALIZED (
    SELECT
        current.*, clock.now,
        CASE
            WHEN current.effective_expires_at > clock.now THEN
                CASE
                    WHEN held_token_id = token_id AND held_idempotency_digest = idempotency_digest THEN
                        CASE
                            WHEN held_request_digest IS DISTINCT FROM request_digest THEN 'idempotency_conflict'
                            WHEN state = 'recognised' THEN 'recognised'
                        END
                    WHEN held_session_id = session_id
                         OR (dedupe_by_metadata AND held_token_id = token_id
                             AND held_metadata IS NOT DISTINCT FROM metadata) THEN
                        CASE WHEN state = 'recognised' THEN 'recognised' END
                    ELSE 'held'
                END
            -- Dead with its session, or tied to one that the snapshot does not show.
            WHEN current.effective_expires_at IS DISTINCT FROM current.expires_at THEN
                CASE WHEN state = 'unsettled' THEN 'needs_handover' END
            WHEN current.available_at > clock.now THEN 'delayed'
            WHEN current.last_waiter_id IS NOT NULL THEN CASE WHEN state = 'unsettled' THEN 'needs_handover' END
            WHEN current.session_until <= clock.now THEN NULL
            WHEN current.state NOT IN ('open', 'recognised') THEN NULL
            WHEN current.space_is_full THEN 'space_full'
            WHEN row_number() OVER (PARTITION BY space_id, name ORDER BY n) = 1 THEN 'acquired'
        END AS verdict
    FROM (
        SELECT * FROM seen WHERE id IS NULL OR state NOT IN ('open', 'recognised')
        UNION ALL
        SELECT * FROM locked
    ) AS current
    CROSS JOIN clock
),
taken AS MATERIALIZED (
    SELECT
        decided.*,
        gen_random_uuid() AS new_lease_id,
        octo_holder_id(public_id, session_id) AS new_holder_id,
        octo_next_fencing_token(coalesce(fencing_token, 0), now) AS new_fencing_token,
        now + least(ttl_seconds, max_hold_seconds) * interval '1 second' AS until
    FROM decided
    WHERE verdict = 'acquired'
),
updated AS (
    UPDATE octo_lock AS lock SET
        fencing_token = new_fencing_token, lease_id = new_lease_id, holder_id = new_holder_id,
        token_id = taken.token_id, session_id = taken.session_id, bound_session_id = taken.bound_session_id, owner = taken.owner, metadata = taken.metadata,
        ttl_seconds = taken.ttl_seconds, acquired_at = now, renewed_at = now, expires_at = until, renewals = 0,
        idempotency_digest = taken.idempotency_digest, request_digest = taken.request_digest, next_sweep_at = until,
        lock_delay_seconds = taken.lock_delay_seconds, available_at = NULL, updated_at = now
    FROM taken
    WHERE lock.id = taken.id
),
inserted AS (
    INSERT INTO octo_lock (
        space_id, name, fencing_token, lease_id, holder_id, token_id, owner, metadata, ttl_seconds, acquired_at,
        renewed_at, expires_at, renewals, idempotency_digest, request_digest, next_sweep_at, lock_delay_seconds,
        session_id, bound_session_id, created_at, updated_at
    )
    SELECT
        space_id, name, new_fencing_token, new_lease_id, new_holder_id, token_id, owner, metadata, ttl_seconds, now,
        now, until, 0, idempotency_digest, request_digest, until, lock_delay_seconds, session_id, bound_session_id, now, now
    FROM taken
    WHERE id IS NULL
    ORDER BY space_id, name
    ON CONFLICT (space_id, name) DO NOTHING
    RETURNING lease_id
),
granted AS MATERIALIZED (
    SELECT * FROM taken WHERE id IS NOT NULL OR new_lease_id IN (SELECT lease_id FROM inserted)
),
-- Who is recognised keeps the lease, never for less time than it had.
kept AS MATERIALIZED (
    SELECT
        decided.*,
        max(ttl_seconds) OVER same_lock AS longest_ttl_seconds,
        greatest(
            expires_at,
            least(
                now + max(ttl_seconds) OVER same_lock * interval '1 second',
                acquired_at + max_hold_seconds * interval '1 second'
            )
        ) AS until
    FROM decided
    WHERE verdict = 'recognised'
    WINDOW same_lock AS (PARTITION BY id)
),
prolonged AS (
    UPDATE octo_lock AS lock SET
        ttl_seconds = greatest(lock.ttl_seconds, longest_ttl_seconds), renewed_at = greatest(lock.renewed_at, now),
        expires_at = until, updated_at = now
    FROM kept
    WHERE lock.id = kept.id
),
-- A takeover is never silent: first how the old lease ended, then the new one.
recorded AS (
    INSERT INTO octo_event (
        at, kind, team_id, space_id, lock_name, fencing_token, owner, holder_id, metadata, token_id, actor_kind,
        actor_id, actor_name, channel, address, request_id, held_ms, recorded_late_ms
    )
    SELECT
        now, kind, team_id, space_id, name, history.fencing_token, history.owner, history.holder_id,
        history.metadata, history.token_id, actor_kind, actor_id, actor_name, channel, history.address, request_id,
        held_ms, recorded_late_ms
    FROM granted
    CROSS JOIN LATERAL (
        VALUES
            (1, 'expired', granted.fencing_token, held_owner, granted.holder_id, held_metadata, held_token_id,
             'system', NULL, 'expiry', NULL, octo_interval_ms(expires_at - acquired_at), octo_interval_ms(now - expires_at)),
            (2, 'acquired', new_fencing_token, granted.owner, new_holder_id, granted.metadata, granted.token_id,
             'token', granted.token_id, token_name, granted.address, NULL, NULL)
    ) AS history (
        step, kind, fencing_token, owner, holder_id, metadata, token_id, actor_kind, actor_id, actor_name, address,
        held_ms, recorded_late_ms
    )
    WHERE kind = 'acquired' OR lease_id IS NOT NULL
    ORDER BY n, step
),
lease AS MATERIALIZED (
    SELECT
        n, new_lease_id AS lease_id, new_fencing_token AS fencing_token, new_holder_id AS holder_id, owner, metadata,
        now AS acquired_at, until AS expires_at
    FROM granted
    UNION ALL
    SELECT n, lease_id, fencing_token, holder_id, held_owner, held_metadata, acquired_at, until FROM kept
),
finish AS MATERIALIZED (
    SELECT clock_timestamp() AS now, waited_for FROM (SELECT count(*) AS waited_for FROM lease) AS all_inserted
)
SELECT
    caller.n,
    CASE
        WHEN caller.refusal IS NOT NULL THEN caller.refusal
        WHEN decided.verdict IN ('acquired', 'recognised') AND lease.expires_at > finish.now THEN decided.verdict
        WHEN decided.verdict IN ('held', 'idempotency_conflict') AND decided.effective_expires_at > finish.now THEN decided.verdict
        WHEN decided.verdict = 'delayed' AND decided.available_at > finish.now THEN 'delayed'
        WHEN decided.verdict IN ('space_full', 'needs_handover') THEN decided.verdict
        ELSE 'retry'
    END AS verdict,
    caller.name,
    lease.lease_id,
    coalesce(lease.fencing_token, decided.fencing_token) AS fencing_token,
    coalesce(lease.holder_id, decided.holder_id) AS holder_id,
    coalesce(lease.owner, decided.held_owner) AS owner,
    CASE WHEN lease.n IS NULL THEN decided.held_metadata ELSE lease.metadata END AS metadata,
    coalesce(lease.acquired_at, decided.acquired_at) AS acquired_at,
    -- One's own lease as far as it goes by itself; somebody else's as it will end, which may be with its session.
    coalesce(lease.expires_at, decided.effective_expires_at) AS expires_at,
    decided.available_at,
    decided.held_delay_seconds AS lock_delay_seconds,
    CASE WHEN decided.verdict = 'held' THEN (
        SELECT count(*)::int FROM octo_waiter
        WHERE octo_waiter.space_id = decided.space_id AND octo_waiter.name = decided.name
          AND octo_waiter.handed_lease_id IS NULL
    ) ELSE 0 END AS waiters,
    finish.now,
    caller.space_id,
    caller.max_ttl_seconds,
    caller.max_metadata_length,
    caller.requests_per_second
FROM caller
CROSS JOIN finish
LEFT JOIN decided USING (n)
LEFT JOIN lease USING (n)
ORDER BY caller.n
