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
-- and the verdict is `again`: the next statement has a snapshot that shows it. An insert can only have waited for
-- one that was rolled back; should its lease have run out by then, the verdict is `again` as well.
--
-- Why batches cannot deadlock. Rows are locked in (space, name) order, and all of them before the first insert,
-- which follow in the same order. So whoever waits for a row holds only lower ones and has inserted nothing, and
-- whoever waits for an insert waits for somebody whose remaining inserts are higher.
WITH request AS MATERIALIZED (
    SELECT * FROM json_to_recordset($1::json) AS request (
        n int, digest text, request_id text, channel text, address inet,
        name text, ttl_seconds int, metadata text, owner text, lock_delay_seconds int,
        idempotency_digest text, request_digest text
    )
),
caller AS MATERIALIZED (
    SELECT
        request.n, request.request_id, request.channel, request.address, request.name, request.metadata,
        request.lock_delay_seconds,
        decode(request.idempotency_digest, 'hex') AS idempotency_digest,
        decode(request.request_digest, 'hex') AS request_digest,
        coalesce(request.owner, live.token_name) AS owner,
        coalesce(request.ttl_seconds, live.default_ttl_seconds) AS ttl_seconds,
        live.token_id, live.public_id, live.token_name, live.space_id, live.team_id, live.max_ttl_seconds,
        live.max_hold_seconds, live.max_metadata_length, live.recognises_metadata, live.requests_per_second,
        live.space_is_full,
        CASE
            WHEN live.token_id IS NULL THEN 'unauthenticated'
            WHEN NOT 'locks:write' = ANY (live.scopes) THEN 'scope_missing'
            WHEN NOT octo_name_is_within(request.name, live.prefixes) THEN 'name_not_allowed'
            WHEN request.ttl_seconds > live.max_ttl_seconds THEN 'ttl_too_long'
            WHEN char_length(request.metadata) > live.max_metadata_length THEN 'metadata_too_long'
        END AS refusal
    FROM request
    LEFT JOIN LATERAL (
        SELECT * FROM octo_live_token WHERE octo_live_token.digest = decode(request.digest, 'hex') LIMIT 1
    ) AS live ON true
),
-- The name as the snapshot shows it.
seen AS MATERIALIZED (
    SELECT
        caller.*, lock.id AS lock_id, lock.fencing_token, lock.holder_id, lock.owner AS held_by,
        lock.metadata AS held_metadata, lock.acquired_at, lock.expires_at,
        lock.lock_delay_seconds AS held_delay_seconds,
        coalesce(lock.available_at, lock.expires_at + lock.lock_delay_seconds * interval '1 second') AS available_at,
        CASE
            WHEN lock.expires_at > clock_timestamp() THEN
                CASE
                    WHEN lock.token_id = caller.token_id AND lock.idempotency_digest = caller.idempotency_digest
                        THEN 'recognised'
                    WHEN caller.recognises_metadata AND lock.token_id = caller.token_id
                         AND lock.metadata IS NOT DISTINCT FROM caller.metadata THEN 'recognised'
                    ELSE 'held'
                END
            WHEN coalesce(lock.available_at, lock.expires_at + lock.lock_delay_seconds * interval '1 second')
                 > clock_timestamp() THEN 'delayed'
            ELSE 'open'
        END AS state
    FROM caller
    LEFT JOIN LATERAL (
        SELECT * FROM octo_lock WHERE octo_lock.space_id = caller.space_id AND octo_lock.name = caller.name LIMIT 1
    ) AS lock ON true
    WHERE caller.refusal IS NULL
),
-- Worth locking for. Of several requests for one name the first has its turn; the others go again.
candidate AS MATERIALIZED (
    SELECT * FROM (
        SELECT seen.*, row_number() OVER (PARTITION BY space_id, name ORDER BY n) AS turn
        FROM seen
        WHERE state IN ('open', 'recognised')
    ) AS contender
    WHERE turn = 1
),
locked AS MATERIALIZED (
    SELECT
        candidate.n, lock.id, lock.fencing_token, lock.lease_id, lock.holder_id, lock.token_id, lock.owner,
        lock.metadata, lock.acquired_at, lock.expires_at, lock.idempotency_digest, lock.request_digest,
        lock.lock_delay_seconds,
        coalesce(lock.available_at, lock.expires_at + lock.lock_delay_seconds * interval '1 second') AS available_at
    FROM candidate
    JOIN octo_lock AS lock ON lock.id = candidate.lock_id
    ORDER BY candidate.space_id, candidate.name
    FOR NO KEY UPDATE OF lock
),
clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now, waited_for FROM (SELECT count(*) AS waited_for FROM locked) AS all_locked
),
decided AS MATERIALIZED (
    SELECT
        candidate.n, candidate.request_id, candidate.channel, candidate.address, candidate.space_id,
        candidate.team_id, candidate.name, candidate.ttl_seconds, candidate.max_hold_seconds,
        candidate.token_id AS caller_id, candidate.token_name, candidate.public_id,
        candidate.owner AS caller_owner, candidate.metadata AS caller_metadata,
        candidate.lock_delay_seconds AS caller_delay_seconds,
        candidate.idempotency_digest AS caller_idempotency_digest, candidate.request_digest AS caller_request_digest,
        locked.id, locked.fencing_token, locked.lease_id, locked.holder_id, locked.token_id, locked.owner,
        locked.metadata, locked.acquired_at, locked.expires_at, locked.available_at, locked.lock_delay_seconds,
        clock.now,
        CASE
            WHEN locked.expires_at > clock.now THEN
                CASE
                    WHEN locked.token_id = candidate.token_id
                         AND locked.idempotency_digest = candidate.idempotency_digest THEN
                        CASE WHEN locked.request_digest = candidate.request_digest THEN 'kept' ELSE 'key_reused' END
                    WHEN candidate.recognises_metadata AND locked.token_id = candidate.token_id
                         AND locked.metadata IS NOT DISTINCT FROM candidate.metadata THEN 'kept'
                    ELSE 'held'
                END
            WHEN locked.available_at > clock.now THEN 'delayed'
            WHEN candidate.space_is_full THEN 'space_full'
            ELSE 'acquired'
        END AS verdict
    FROM candidate
    JOIN locked USING (n)
    CROSS JOIN clock
),
updated AS (
    UPDATE octo_lock AS lock SET
        fencing_token = CASE WHEN kept THEN lock.fencing_token
                             ELSE octo_next_fencing_token(taken.fencing_token, taken.now) END,
        lease_id = CASE WHEN kept THEN lock.lease_id ELSE gen_random_uuid() END,
        holder_id = CASE WHEN kept THEN lock.holder_id ELSE octo_holder_id(taken.public_id, NULL) END,
        token_id = taken.caller_id,
        session_id = CASE WHEN kept THEN lock.session_id END,
        owner = CASE WHEN kept THEN lock.owner ELSE taken.caller_owner END,
        metadata = CASE WHEN kept THEN lock.metadata ELSE taken.caller_metadata END,
        ttl_seconds = taken.ttl_seconds,
        acquired_at = CASE WHEN kept THEN lock.acquired_at ELSE taken.now END,
        renewed_at = taken.now,
        expires_at = CASE WHEN kept THEN greatest(lock.expires_at, taken.until) ELSE taken.until END,
        renewals = CASE WHEN kept THEN lock.renewals ELSE 0 END,
        idempotency_digest = CASE WHEN kept THEN lock.idempotency_digest ELSE taken.caller_idempotency_digest END,
        request_digest = CASE WHEN kept THEN lock.request_digest ELSE taken.caller_request_digest END,
        sweep_at = CASE WHEN kept THEN lock.sweep_at ELSE taken.until END,
        lock_delay_seconds = CASE WHEN kept THEN lock.lock_delay_seconds ELSE taken.caller_delay_seconds END,
        available_at = NULL,
        changed_at = taken.now
    FROM (
        SELECT
            decided.*, verdict = 'kept' AS kept,
            least(
                now + ttl_seconds * interval '1 second',
                CASE WHEN verdict = 'kept' THEN acquired_at ELSE now END + max_hold_seconds * interval '1 second'
            ) AS until
        FROM decided
        WHERE verdict IN ('acquired', 'kept')
    ) AS taken
    WHERE lock.id = taken.id
    RETURNING
        taken.n, taken.verdict, lock.lease_id, lock.fencing_token, lock.holder_id, lock.owner, lock.metadata,
        lock.acquired_at, lock.expires_at
),
inserted AS (
    INSERT INTO octo_lock AS lock (
        space_id, name, fencing_token, lease_id, holder_id, token_id, owner, metadata, ttl_seconds, acquired_at,
        renewed_at, expires_at, renewals, idempotency_digest, request_digest, sweep_at, lock_delay_seconds,
        created_at, changed_at
    )
    SELECT
        space_id, name, octo_next_fencing_token(0, now), gen_random_uuid(), octo_holder_id(public_id, NULL), token_id,
        owner, metadata, ttl_seconds, now, now, until, 0, idempotency_digest, request_digest, until,
        lock_delay_seconds, now, now
    FROM (
        SELECT
            candidate.*, clock.now,
            clock.now + least(ttl_seconds, max_hold_seconds) * interval '1 second' AS until
        FROM candidate
        CROSS JOIN clock
        WHERE lock_id IS NULL AND NOT space_is_full
    ) AS newcomer
    ORDER BY space_id, name
    ON CONFLICT (space_id, name) DO NOTHING
    RETURNING
        space_id, name, lease_id, fencing_token, holder_id, owner, metadata, acquired_at, expires_at
),
granted AS MATERIALIZED (
    SELECT * FROM updated
    UNION ALL
    SELECT
        candidate.n, 'acquired', inserted.lease_id, inserted.fencing_token, inserted.holder_id, inserted.owner,
        inserted.metadata, inserted.acquired_at, inserted.expires_at
    FROM inserted
    JOIN candidate USING (space_id, name)
),
-- A takeover is never silent: first how the old lease ended, then the new one.
recorded AS (
    INSERT INTO octo_event (
        at, kind, team_id, space_id, lock_name, fencing_token, owner, holder_id, metadata, token_id, actor_kind,
        actor_id, actor_name, channel, address, request_id, held_ms, overdue_ms
    )
    SELECT
        at, kind, team_id, space_id, name, fencing_token, owner, holder_id, metadata, token_id, actor_kind,
        actor_id, actor_name, channel, address, request_id, held_ms, overdue_ms
    FROM (
        SELECT
            n, 1 AS step, now AS at, 'expired' AS kind, team_id, space_id, name, fencing_token, owner, holder_id,
            metadata, token_id, 'system' AS actor_kind, NULL::bigint AS actor_id, 'expiry' AS actor_name, channel,
            NULL::inet AS address, request_id, octo_ms(expires_at - acquired_at) AS held_ms,
            octo_ms(now - expires_at) AS overdue_ms
        FROM decided
        WHERE verdict = 'acquired' AND lease_id IS NOT NULL
        UNION ALL
        SELECT
            n, 2, granted.acquired_at, 'acquired', candidate.team_id, candidate.space_id, candidate.name,
            granted.fencing_token, granted.owner, granted.holder_id, granted.metadata, candidate.token_id, 'token',
            candidate.token_id, candidate.token_name, candidate.channel, candidate.address, candidate.request_id,
            NULL, NULL
        FROM granted
        JOIN candidate USING (n)
        WHERE granted.verdict = 'acquired'
    ) AS history
    ORDER BY n, step
)
SELECT
    caller.n,
    CASE
        WHEN caller.refusal IS NOT NULL THEN caller.refusal
        WHEN granted.n IS NOT NULL AND granted.expires_at <= clock_timestamp() THEN 'again'
        WHEN granted.n IS NOT NULL THEN granted.verdict
        WHEN decided.n IS NOT NULL THEN decided.verdict
        WHEN seen.state IN ('held', 'delayed') THEN seen.state
        WHEN seen.space_is_full AND seen.lock_id IS NULL THEN 'space_full'
        ELSE 'again'
    END AS verdict,
    caller.name,
    granted.lease_id,
    coalesce(granted.fencing_token, decided.fencing_token, seen.fencing_token) AS fencing_token,
    coalesce(granted.holder_id, decided.holder_id, seen.holder_id) AS holder_id,
    coalesce(granted.owner, decided.owner, seen.held_by) AS owner,
    CASE
        WHEN granted.n IS NOT NULL THEN granted.metadata
        WHEN decided.n IS NOT NULL THEN decided.metadata
        ELSE seen.held_metadata
    END AS metadata,
    coalesce(granted.acquired_at, decided.acquired_at, seen.acquired_at) AS acquired_at,
    coalesce(granted.expires_at, decided.expires_at, seen.expires_at) AS expires_at,
    coalesce(decided.available_at, seen.available_at) AS available_at,
    coalesce(decided.lock_delay_seconds, seen.held_delay_seconds) AS lock_delay_seconds,
    (
        SELECT count(*)::int FROM octo_waiter
        WHERE octo_waiter.space_id = caller.space_id AND octo_waiter.name = caller.name
    ) AS waiters,
    clock_timestamp() AS now,
    caller.space_id,
    caller.max_ttl_seconds,
    caller.max_metadata_length,
    caller.requests_per_second
FROM caller
LEFT JOIN seen USING (n)
LEFT JOIN decided USING (n)
LEFT JOIN granted USING (n)
ORDER BY caller.n
