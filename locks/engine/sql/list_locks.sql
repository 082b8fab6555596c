-- A page of a space's locks. Changes nothing.
--
-- $1 digest (hex) · $2 prefix · $3 owner or null · $4 held, delayed or all · $5 limit · $6 name and $7 time to continue after
-- $8 order: name, expires_at or acquired_at · $9 for a run's actor, the prefixes of its run and layer; null for others
-- Planned with its values (never as a generic plan), so that the conditions on $4 and $8 are decided by the planner, and a page
-- of held locks by name is one scan of the index of held locks. The prefixes are compared in a CASE, which the planner does
-- not estimate: octo_name_matches_prefixes, inlined, would seem to leave so few rows that sorting them were cheaper.
-- There is always a row: without locks on the page it carries the verdict and the total only.
SELECT
    coalesce(auth.refusal, 'listed') AS verdict,
    total.counted AS total,
    page.name, page.status, page.fencing_token, page.holder_id, page.owner, page.metadata, page.acquired_at,
    page.renewed_at, page.effective_expires_at AS expires_at, page.session_id_present, page.available_at, page.waiters,
    clock.now,
    auth.space_id,
    auth.requests_per_second
FROM (SELECT clock_timestamp() AS now) AS clock
CROSS JOIN octo_auth_v2($1, 'locks:read', NULL) AS auth
LEFT JOIN LATERAL (
    SELECT count(*)::int AS counted
    FROM (
        SELECT FROM octo_lock AS lock
        WHERE auth.refusal IS NULL
          AND lock.space_id = auth.space_id
          AND starts_with(lock.name, $2::text)
          AND CASE WHEN cardinality(auth.prefixes) = 0 THEN true ELSE lock.name ^@ ANY (auth.prefixes) END
          AND ($9::text[] IS NULL OR NOT lock.name ^@ ANY ('{layer:,run:}') OR lock.name ^@ ANY ($9::text[]))
          AND ($3::text IS NULL OR lock.owner = $3)
          AND ($4::text <> 'held' OR (
                lock.lease_id IS NOT NULL AND lock.expires_at > clock.now
                AND (lock.bound_session_id IS NULL
                     OR lock.bound_session_id <> ALL (ARRAY(SELECT id FROM octo_expired_session)))))
          AND ($4::text <> 'delayed' OR (
                coalesce(octo_effective_expiry(lock.expires_at, lock.bound_session_id) <= clock.now, true)
                AND octo_available_at(
                    lock.available_at, octo_effective_expiry(lock.expires_at, lock.bound_session_id),
                    lock.lock_delay_seconds) > clock.now))
        LIMIT 10001
    ) AS matching
) AS total ON true
LEFT JOIN LATERAL (
    SELECT
        lock.name, lock.fencing_token, lock.holder_id, lock.owner, lock.metadata, lock.acquired_at, lock.renewed_at,
        state.effective_expires_at, lock.session_id IS NOT NULL AS session_id_present,
        octo_available_at(lock.available_at, state.effective_expires_at, lock.lock_delay_seconds) AS available_at,
        CASE
            WHEN state.effective_expires_at > clock.now THEN 'held'
            WHEN octo_available_at(lock.available_at, state.effective_expires_at, lock.lock_delay_seconds) > clock.now
                THEN 'delayed'
            ELSE 'free'
        END AS status,
        CASE $8::text WHEN 'expires_at' THEN state.effective_expires_at WHEN 'acquired_at' THEN lock.acquired_at END
            AS sort_time,
        (
            SELECT count(*)::int FROM octo_waiter
            WHERE octo_waiter.space_id = lock.space_id AND octo_waiter.name = lock.name
              AND octo_waiter.handed_lease_id IS NULL
        ) AS waiters
    FROM octo_lock AS lock
    -- A page by name reads few sessions, one by one; a page by time needs those of all locks.
    LEFT JOIN octo_session AS session ON $8::text <> 'name' AND session.id = lock.bound_session_id
    -- OFFSET 0: evaluated once for each row.
    CROSS JOIN LATERAL (
        SELECT CASE
            WHEN $8::text = 'name' THEN octo_effective_expiry(lock.expires_at, lock.bound_session_id)
            ELSE least(lock.expires_at, session.ended_at, session.expires_at)
        END AS effective_expires_at OFFSET 0
    ) AS state
    WHERE auth.refusal IS NULL
      AND lock.space_id = auth.space_id
      AND CASE $8::text
          WHEN 'name' THEN lock.name > $6::text
          WHEN 'expires_at' THEN (state.effective_expires_at, lock.name) > ($7::timestamptz, $6::text)
          ELSE (lock.acquired_at, lock.name) > ($7::timestamptz, $6::text) END
      AND starts_with(lock.name, $2::text)
      AND CASE WHEN cardinality(auth.prefixes) = 0 THEN true ELSE lock.name ^@ ANY (auth.prefixes) END
      AND ($9::text[] IS NULL OR NOT lock.name ^@ ANY ('{layer:,run:}') OR lock.name ^@ ANY ($9::text[]))
      AND ($3::text IS NULL OR lock.owner = $3)
      AND ($4::text <> 'held' OR (
            lock.lease_id IS NOT NULL AND lock.expires_at > clock.now
            AND (lock.bound_session_id IS NULL
                 OR lock.bound_session_id <> ALL (ARRAY(SELECT id FROM octo_expired_session)))))
      AND ($4::text <> 'delayed' OR (
            coalesce(state.effective_expires_at <= clock.now, true)
            AND octo_available_at(lock.available_at, state.effective_expires_at, lock.lock_delay_seconds) > clock.now))
    ORDER BY sort_time, lock.name
    LIMIT $5::int
) AS page ON true
ORDER BY page.sort_time, page.name
