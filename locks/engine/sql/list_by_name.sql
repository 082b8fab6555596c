-- A page of a space's locks in the order of their names. Changes nothing.
--
-- $1 digest (hex) · $2 prefix · $3 owner or null · $4 held, delayed or all · $5 limit · $6 name to go on after
-- Planned with its values (never as a generic plan), so that `held` becomes one scan of the index of held locks.
-- The prefixes are compared in a CASE, about which the planner knows nothing: octo_name_matches_prefixes, inlined, looks to it as if
-- it left so few rows that sorting them were cheaper than the index.
-- There is always a row: without locks on the page it carries the verdict and the total only.
SELECT
    coalesce(caller.refusal, 'listed') AS verdict,
    total.counted AS total,
    page.*,
    clock.now,
    caller.space_id,
    caller.requests_per_second
FROM (SELECT clock_timestamp() AS now) AS clock
CROSS JOIN (
    SELECT
        live.*,
        CASE
            WHEN live.token_id IS NULL THEN 'unauthenticated'
            WHEN NOT 'locks:read' = ANY (live.scopes) THEN 'scope_missing'
        END AS refusal
    FROM (SELECT decode($1, 'hex') AS digest) AS presented
    LEFT JOIN octo_live_token AS live USING (digest)
) AS caller
LEFT JOIN LATERAL (
    SELECT count(*)::int AS counted
    FROM (
        SELECT FROM octo_lock AS lock
        WHERE caller.refusal IS NULL
          AND lock.space_id = caller.space_id
          AND starts_with(lock.name, $2::text)
          AND CASE WHEN cardinality(caller.prefixes) = 0 THEN true ELSE lock.name ^@ ANY (caller.prefixes) END
          AND ($3::text IS NULL OR lock.owner = $3)
          AND ($4::text <> 'held' OR (
                lock.lease_id IS NOT NULL AND lock.expires_at > clock.now
                AND (lock.bound_session_id IS NULL OR lock.bound_session_id <> ALL (ARRAY(SELECT id FROM octo_expired_session)))))
          AND ($4::text <> 'delayed' OR (
                coalesce(octo_effective_expiry(lock.expires_at, lock.bound_session_id) <= clock.now, true)
                AND coalesce(
                    lock.available_at, octo_effective_expiry(lock.expires_at, lock.bound_session_id) + lock.lock_delay_seconds * interval '1 second'
                ) > clock.now))
        LIMIT 10001
    ) AS matching
) AS total ON true
LEFT JOIN LATERAL (
    SELECT
        lock.name,
        CASE
            WHEN standing.effective_expires_at > clock.now THEN 'held'
            WHEN lock.available_at > clock.now
                 OR standing.effective_expires_at + lock.lock_delay_seconds * interval '1 second' > clock.now THEN 'delayed'
            ELSE 'free'
        END AS status,
        lock.fencing_token, lock.holder_id, lock.owner, lock.metadata, lock.acquired_at, lock.renewed_at,
        standing.effective_expires_at AS expires_at, lock.session_id IS NOT NULL AS session_id_present,
        coalesce(lock.available_at, standing.effective_expires_at + lock.lock_delay_seconds * interval '1 second') AS available_at,
        (
            SELECT count(*)::int FROM octo_waiter
            WHERE octo_waiter.space_id = lock.space_id AND octo_waiter.name = lock.name
              AND octo_waiter.handed_lease_id IS NULL
        ) AS waiters
    FROM octo_lock AS lock
    -- Once for each row.
    CROSS JOIN LATERAL (SELECT octo_effective_expiry(lock.expires_at, lock.bound_session_id) AS effective_expires_at OFFSET 0) AS standing
    WHERE caller.refusal IS NULL
      AND lock.space_id = caller.space_id
      AND lock.name > $6::text
      AND starts_with(lock.name, $2::text)
      AND CASE WHEN cardinality(caller.prefixes) = 0 THEN true ELSE lock.name ^@ ANY (caller.prefixes) END
      AND ($3::text IS NULL OR lock.owner = $3)
      AND ($4::text <> 'held' OR (
                lock.lease_id IS NOT NULL AND lock.expires_at > clock.now
                AND (lock.bound_session_id IS NULL OR lock.bound_session_id <> ALL (ARRAY(SELECT id FROM octo_expired_session)))))
      AND ($4::text <> 'delayed' OR (
            coalesce(standing.effective_expires_at <= clock.now, true)
            AND coalesce(lock.available_at, standing.effective_expires_at + lock.lock_delay_seconds * interval '1 second')
                > clock.now))
    ORDER BY lock.name
    LIMIT $5::int
) AS page ON true
ORDER BY page.name
