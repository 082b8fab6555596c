-- A page of a space's held locks, the one that expires or was acquired first on top. Changes nothing.
--
-- $1 digest (hex) · $2 prefix · $3 owner or null · $4 expires_at or acquired_at · $5 limit · $6 name and $7 time to go
-- on after
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
          AND octo_name_matches_prefixes(lock.name, caller.prefixes)
          AND ($3::text IS NULL OR lock.owner = $3)
          AND lock.lease_id IS NOT NULL
          AND lock.expires_at > clock.now
          AND (lock.bound_session_id IS NULL OR lock.bound_session_id <> ALL (ARRAY(SELECT id FROM octo_expired_session)))
        LIMIT 10001
    ) AS matching
) AS total ON true
LEFT JOIN LATERAL (
    SELECT
        lock.name,
        'held' AS status,
        lock.fencing_token, lock.holder_id, lock.owner, lock.metadata, lock.acquired_at, lock.renewed_at,
        lock.effective_expires_at AS expires_at, lock.session_id IS NOT NULL AS session_id_present,
        lock.effective_expires_at + lock.lock_delay_seconds * interval '1 second' AS available_at,
        (
            SELECT count(*)::int FROM octo_waiter
            WHERE octo_waiter.space_id = lock.space_id AND octo_waiter.name = lock.name
              AND octo_waiter.handed_lease_id IS NULL
        ) AS waiters
    FROM octo_lock_state AS lock
    WHERE caller.refusal IS NULL
      AND lock.space_id = caller.space_id
      AND (CASE $4::text WHEN 'expires_at' THEN lock.effective_expires_at ELSE lock.acquired_at END, lock.name)
          > ($7::timestamptz, $6::text)
      AND starts_with(lock.name, $2::text)
      AND octo_name_matches_prefixes(lock.name, caller.prefixes)
      AND ($3::text IS NULL OR lock.owner = $3)
      AND lock.lease_id IS NOT NULL
      AND lock.effective_expires_at > clock.now
    ORDER BY CASE $4::text WHEN 'expires_at' THEN lock.effective_expires_at ELSE lock.acquired_at END, lock.name
    LIMIT $5::int
) AS page ON true
ORDER BY CASE $4::text WHEN 'expires_at' THEN page.expires_at ELSE page.acquired_at END, page.name
