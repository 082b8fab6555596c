-- Stand in line: a place for each request of the batch, in its order. One row a request.
--
-- $1 is a JSON array of requests.Wait. The lock is locked first, then told who came last, and only then the place is
-- given out: so the order of the places of a name is that in which their transactions commit, and whoever frees the lock
-- afterwards sees on its row that somebody waits (end_and_hand_over.sql). A lock that has become free in the meantime, and is nobody
-- else's turn, is not waited for: the verdict is `again`, as it is for whatever acquire has its own words for.
--
-- Nobody waits here for a lock that somebody is working on, since the others of the batch would wait along: the verdict is
-- `busy`, and there is no place yet, but an queue_seq, with which it is to come back.
--
-- A retry (the same token and Idempotency-Key) takes over the place that its first try has, with its seniority. The place
-- gets a new id by that: whatever the first try, or whoever acts for it, still does with the old one concerns nobody any
-- more. A request that lost its place and comes back takes nothing from a retry: it is told `taken_over`.
WITH caller AS MATERIALIZED (
    SELECT
        request.n, request.name, request.server_id, request.wait_ms, request.queue_seq, request.is_requeue,
        request.request_id,
        request.channel, request.address, request.metadata, request.lock_delay_seconds, request.session_id,
        CASE WHEN request.ephemeral THEN request.session_id END AS bound_session_id,
        decode(request.idempotency_digest, 'hex') AS idempotency_digest,
        decode(request.request_digest, 'hex') AS request_digest,
        coalesce(request.owner, session.owner, live.token_name) AS owner,
        coalesce(request.ttl_seconds, live.default_ttl_seconds) AS ttl_seconds,
        live.token_id, live.space_id, space.max_waiters_per_name, space.max_waiters
    FROM json_to_recordset($1::json) AS request (
        n int, digest text, request_id text, channel text, address inet, name text COLLATE "C", ttl_seconds int,
        metadata text, owner text, lock_delay_seconds int, session_id uuid, ephemeral boolean,
        idempotency_digest text, request_digest text, server_id uuid, wait_ms bigint, queue_seq bigint,
        is_requeue boolean
    )
    CROSS JOIN LATERAL (
        SELECT * FROM octo_live_token WHERE octo_live_token.digest = decode(request.digest, 'hex') LIMIT 1
    ) AS live
    JOIN octo_space AS space ON space.id = live.space_id
    LEFT JOIN LATERAL (
        -- By its id alone: a token can have many, and this may be planned when it has none.
        SELECT token_id, owner, least(ended_at, expires_at) AS effective_expires_at FROM octo_session
        WHERE octo_session.id = request.session_id LIMIT 1
    ) AS session ON session.token_id = live.token_id
    WHERE 'locks:write' = ANY (live.scopes)
      AND octo_name_matches_prefixes(request.name, live.prefixes)
      AND coalesce(request.ttl_seconds <= live.max_ttl_seconds, true)
      AND coalesce(char_length(request.metadata) <= live.max_metadata_length, true)
      AND (request.session_id IS NULL OR session.effective_expires_at > clock_timestamp())
),
seen AS MATERIALIZED (
    SELECT caller.*, lock.id
    FROM caller
    CROSS JOIN LATERAL (
        SELECT id FROM octo_lock WHERE octo_lock.space_id = caller.space_id AND octo_lock.name = caller.name LIMIT 1
    ) AS lock
),
locked AS MATERIALIZED (
    SELECT
        seen.*, lock.expires_at, lock.last_waiter_id,
        coalesce(lock.available_at, lock.expires_at + lock.lock_delay_seconds * interval '1 second') AS available_at,
        lock.token_id = seen.token_id AND lock.idempotency_digest = seen.idempotency_digest AS is_theirs
    FROM seen
    JOIN octo_lock AS lock ON lock.id = seen.id
    ORDER BY seen.space_id, seen.name, seen.n
    FOR NO KEY UPDATE OF lock SKIP LOCKED
),
clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now, waited_for FROM (SELECT count(*) AS waited_for FROM locked) AS all_locked
),
-- Counted once for all of the batch, and no further than the limit.
everybody AS MATERIALIZED (
    SELECT space.space_id, in_line.number
    FROM (SELECT DISTINCT space_id, max_waiters FROM locked) AS space
    CROSS JOIN LATERAL (
        SELECT count(*) AS number
        FROM (
            SELECT FROM octo_waiter AS waiter WHERE waiter.space_id = space.space_id LIMIT space.max_waiters
        ) AS waiter
    ) AS in_line
),
counted AS MATERIALIZED (
    SELECT
        locked.*, clock.now, everybody.number AS in_space, here.number AS before,
        first_try.id AS known_id, first_try.request_digest AS known_digest,
        row_number() OVER (PARTITION BY locked.id ORDER BY locked.n) AS nth_here,
        row_number() OVER (PARTITION BY locked.space_id ORDER BY locked.n) AS nth_in_space
    FROM locked
    JOIN everybody USING (space_id)
    CROSS JOIN clock
    CROSS JOIN LATERAL (
        SELECT count(*) AS number FROM octo_waiter AS waiter
        WHERE waiter.space_id = locked.space_id AND waiter.name = locked.name AND waiter.handed_lease_id IS NULL
          AND coalesce(waiter.queue_seq < locked.queue_seq, true)
    ) AS here
    LEFT JOIN LATERAL (
        SELECT waiter.id, waiter.request_digest FROM octo_waiter AS waiter
        WHERE locked.idempotency_digest IS NOT NULL
          AND waiter.space_id = locked.space_id AND waiter.name = locked.name AND waiter.token_id = locked.token_id
          AND waiter.idempotency_digest = locked.idempotency_digest AND waiter.handed_lease_id IS NULL
        LIMIT 1
    ) AS first_try ON true
),
decided AS MATERIALIZED (
    SELECT
        counted.*,
        CASE
            WHEN is_theirs AND expires_at > now THEN 'retry'
            WHEN known_id IS NOT NULL THEN
                CASE
                    WHEN known_digest IS DISTINCT FROM request_digest THEN 'idempotency_conflict'
                    WHEN is_requeue THEN 'superseded'
                    WHEN nth_here = 1 THEN 'waiting'
                    ELSE 'retry'
                END
            WHEN NOT coalesce(available_at > now, false) AND last_waiter_id IS NULL AND nth_here = 1 THEN 'retry'
            WHEN before + nth_here > max_waiters_per_name THEN 'queue_full'
            WHEN in_space + nth_in_space > max_waiters THEN 'queue_full'
            WHEN coalesce(available_at > now, false) OR last_waiter_id IS NOT NULL THEN 'waiting'
            ELSE 'retry'
        END AS verdict
    FROM counted
),
placed AS MATERIALIZED (
    SELECT in_order.*, nextval('octo_waiter_id_seq') AS waiter_id
    FROM (SELECT * FROM decided WHERE verdict = 'waiting' AND known_id IS NULL ORDER BY n) AS in_order
),
inserted AS (
    INSERT INTO octo_waiter (
        id, queue_seq, space_id, name, server_id, token_id, session_id, bound_session_id, owner, metadata, ttl_seconds,
        lock_delay_seconds, idempotency_digest, request_digest, request_id, channel, address, enqueued_at, deadline_at
    )
    SELECT
        waiter_id, coalesce(queue_seq, waiter_id), space_id, name, server_id, token_id, session_id, bound_session_id, owner,
        metadata, ttl_seconds, lock_delay_seconds, idempotency_digest, request_digest, request_id, channel, address, now,
        now + wait_ms * interval '1 millisecond'
    FROM placed
),
taken_over AS (
    UPDATE octo_waiter AS waiter SET
        id = nextval('octo_waiter_id_seq'), server_id = decided.server_id, request_id = decided.request_id, address = decided.address,
        deadline_at = decided.now + decided.wait_ms * interval '1 millisecond'
    FROM decided
    WHERE waiter.id = decided.known_id AND decided.verdict = 'waiting' AND waiter.handed_lease_id IS NULL
    RETURNING waiter.id, waiter.queue_seq, decided.known_id
),
marked AS (
    UPDATE octo_lock AS lock SET last_waiter_id = latest.waiter_id, updated_at = latest.now
    FROM (SELECT id, max(waiter_id) AS waiter_id, max(now) AS now FROM placed GROUP BY id) AS latest
    WHERE lock.id = latest.id
)
SELECT
    request.n,
    CASE
        WHEN decided.verdict = 'waiting' AND placed.n IS NULL AND taken_over.id IS NULL THEN 'retry'
        WHEN decided.n IS NULL AND seen.n IS NOT NULL THEN 'row_locked'
        ELSE coalesce(decided.verdict, 'retry')
    END AS verdict,
    coalesce(placed.waiter_id, taken_over.id) AS waiter_id,
    CASE
        WHEN decided.n IS NULL AND seen.n IS NOT NULL THEN coalesce(seen.queue_seq, nextval('octo_waiter_id_seq'))
        ELSE coalesce(placed.queue_seq, placed.waiter_id, taken_over.queue_seq)
    END AS queue_seq,
    taken_over.known_id AS replaced_waiter_id,
    (decided.before + decided.nth_here)::int AS position,
    decided.space_id,
    clock_timestamp() AS now
FROM json_to_recordset($1::json) AS request (n int)
LEFT JOIN seen USING (n)
LEFT JOIN decided USING (n)
LEFT JOIN placed USING (n)
LEFT JOIN taken_over ON taken_over.known_id = decided.known_id
ORDER BY request.n
