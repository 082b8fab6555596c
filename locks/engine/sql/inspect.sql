-- Inspect: what is known of each name, one row for each request of the batch, in its order. Changes nothing.
--
-- $1 is a JSON array of requests.Inspect. A lease that has run out, by itself or with its session, is free, whether or
-- not the sweep has been; one that has not expires when either does, whichever is first.
SELECT
    caller.n,
    CASE
        WHEN caller.refusal IS NOT NULL THEN caller.refusal
        WHEN lock.effective_expires_at > clock.now THEN 'held'
        WHEN lock.available_at > clock.now
             OR lock.effective_expires_at + lock.lock_delay_seconds * interval '1 second' > clock.now THEN 'delayed'
        ELSE 'free'
    END AS verdict,
    caller.name,
    lock.fencing_token,
    lock.holder_id,
    lock.owner,
    lock.metadata,
    lock.acquired_at,
    lock.renewed_at,
    lock.effective_expires_at AS expires_at,
    lock.session_id IS NOT NULL AS session_id_present,
    coalesce(lock.available_at, lock.effective_expires_at + lock.lock_delay_seconds * interval '1 second') AS available_at,
    CASE WHEN lock.last_waiter_id IS NULL THEN 0 ELSE (
        SELECT count(*)::int FROM octo_waiter
        WHERE octo_waiter.space_id = caller.space_id AND octo_waiter.name = caller.name
          AND octo_waiter.handed_lease_id IS NULL
    ) END AS waiters,
    CASE WHEN lock.last_waiter_id IS NOT NULL THEN (
        SELECT json_agg(json_build_object('owner', owner, 'since', enqueued_at))
        FROM (
            SELECT owner, enqueued_at FROM octo_waiter
            WHERE octo_waiter.space_id = caller.space_id AND octo_waiter.name = caller.name
              AND octo_waiter.handed_lease_id IS NULL
            ORDER BY octo_waiter.queue_seq, octo_waiter.id
            LIMIT 100
        ) AS waiter
    ) END AS in_line,
    clock.now,
    caller.space_id,
    caller.requests_per_second
FROM (
    SELECT
        request.n, request.name, live.space_id, live.requests_per_second,
        CASE
            WHEN live.token_id IS NULL THEN 'unauthenticated'
            WHEN NOT 'locks:read' = ANY (live.scopes) THEN 'scope_missing'
            WHEN NOT octo_name_matches_prefixes(request.name, live.prefixes) THEN 'name_not_allowed'
        END AS refusal
    FROM json_to_recordset($1::json) AS request (n int, digest text, name text)
    LEFT JOIN LATERAL (
        SELECT * FROM octo_live_token WHERE octo_live_token.digest = decode(request.digest, 'hex') LIMIT 1
    ) AS live ON true
) AS caller
CROSS JOIN (SELECT clock_timestamp() AS now) AS clock
LEFT JOIN LATERAL (
    SELECT
        octo_lock.*,
        octo_effective_expiry(octo_lock.expires_at, octo_lock.bound_session_id) AS effective_expires_at
    FROM octo_lock
    WHERE caller.refusal IS NULL AND octo_lock.space_id = caller.space_id AND octo_lock.name = caller.name
    LIMIT 1
) AS lock ON true
ORDER BY caller.n
