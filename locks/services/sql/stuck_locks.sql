-- The held locks of a space that need attention, with the reasons; the most urgent first. Changes nothing.
--
-- space_id; ids: only these locks (null for all); max_hold_seconds (or null); min_queue: how many waiters make a long queue;
-- snoozed: list snoozed locks or the others (null for both); reason ('' for any); rows; skipped. The counts at the end cover all
-- stuck locks, whatever the reason requested; if no lock is listed, they come on one row without a lock.
--
-- One pass over the held locks finds the few candidates; what is usual for a lock is read from octo_hold_baseline.
-- A lock counts as not renewed when its heartbeat is late and its holder has renewed another lock since it was due.
WITH invalid_token AS MATERIALIZED (
    SELECT * FROM octo_invalid_token WHERE space_id = %(space_id)s
),
long_queue AS MATERIALIZED (
    SELECT name, min(enqueued_at) AS first_enqueued_at
    FROM octo_queued_waiter
    WHERE space_id = %(space_id)s
    GROUP BY name
    HAVING count(*) >= %(min_queue)s
),
long_hold AS MATERIALIZED (
    SELECT lock_id, fencing_token, sample_size, median_ms, p90_ms
    FROM octo_hold_baseline
    WHERE space_id = %(space_id)s AND anomalous_after <= statement_timestamp()
      AND (%(ids)s::bigint[] IS NULL OR lock_id = ANY (%(ids)s::bigint[]))
),
-- Requests for the release of a present lease, the latest of each lock.
release_request AS MATERIALIZED (
    SELECT DISTINCT ON (lock.id)
        lock.id, request.person_name, request.requested_at, request.reason, count(*) OVER (PARTITION BY lock.id) AS requests
    FROM octo_release_request AS request
    JOIN octo_lock AS lock ON lock.space_id = request.space_id AND lock.name = request.lock_name
        AND lock.fencing_token = request.fencing_token AND lock.lease_id IS NOT NULL
    WHERE request.space_id = %(space_id)s
      AND (%(ids)s::bigint[] IS NULL OR lock.id = ANY (%(ids)s::bigint[]))
    ORDER BY lock.id, request.requested_at DESC
),
candidate AS MATERIALIZED (
    SELECT *
    FROM (
        SELECT
            id, owner, holder_id, heartbeat_due_at,
            effective_expires_at <= statement_timestamp() - interval '5 seconds' AS is_overdue,
            coalesce(acquired_at + %(max_hold_seconds)s::int * interval '1 second' <= statement_timestamp(), false)
                AS exceeds_max_hold,
            token_id IN (SELECT id FROM invalid_token) AS has_invalid_token,
            session_id IS NULL AND effective_expires_at > statement_timestamp() AND NOT is_heartbeating AS is_late
        FROM octo_lock_state_v2
        WHERE space_id = %(space_id)s AND lease_id IS NOT NULL
          AND (%(ids)s::bigint[] IS NULL OR id = ANY (%(ids)s::bigint[]))
    ) AS held
    WHERE is_overdue OR exceeds_max_hold OR has_invalid_token OR is_late
),
active_holder AS MATERIALIZED (
    SELECT lock.owner, lock.holder_id, max(lock.renewed_at) AS renewed_at, count(*) - 1 AS others
    FROM octo_lock_state_v2 AS lock
    WHERE lock.space_id = %(space_id)s AND lock.lease_id IS NOT NULL AND lock.session_id IS NULL
      AND lock.effective_expires_at > statement_timestamp()
      -- Usually none is late; then the locks are not read.
      AND EXISTS (SELECT FROM candidate WHERE is_late)
      AND (lock.owner, lock.holder_id) IN (SELECT owner, holder_id FROM candidate WHERE is_late)
    GROUP BY lock.owner, lock.holder_id
    HAVING max(lock.renewed_at) > min(lock.renewed_at)
),
not_renewed AS MATERIALIZED (
    SELECT candidate.id, active_holder.renewed_at, active_holder.others
    FROM candidate
    JOIN active_holder ON active_holder.owner = candidate.owner AND active_holder.holder_id = candidate.holder_id
        AND active_holder.renewed_at > candidate.heartbeat_due_at
    WHERE candidate.is_late
),
stuck_id AS (
    SELECT id FROM candidate WHERE is_overdue OR exceeds_max_hold OR has_invalid_token
    UNION
    SELECT id FROM not_renewed
    UNION
    SELECT lock_id FROM long_hold
    UNION
    SELECT id FROM release_request
    UNION
    SELECT lock.id FROM long_queue JOIN octo_lock AS lock ON lock.space_id = %(space_id)s AND lock.name = long_queue.name
),
stuck_lock AS MATERIALIZED (
    SELECT
        lock.id, lock.name, lock.acquired_at,
        coalesce(candidate.is_overdue, false) AS is_overdue,
        invalid_token.id IS NOT NULL AS has_invalid_token,
        coalesce(candidate.exceeds_max_hold, false) AS exceeds_max_hold,
        long_hold.lock_id IS NOT NULL AS is_long_hold,
        not_renewed.id IS NOT NULL AS is_not_renewed,
        release_request.id IS NOT NULL AS has_release_request,
        long_queue.name IS NOT NULL AS has_long_queue,
        invalid_token.name AS token_name, invalid_token.ended_at AS token_ended_at, invalid_token.is_revoked AS token_is_revoked,
        long_hold.sample_size, long_hold.median_ms, long_hold.p90_ms,
        not_renewed.renewed_at AS others_renewed_at, not_renewed.others,
        release_request.person_name AS requested_by, release_request.requested_at,
        release_request.reason AS request_reason, release_request.requests,
        long_queue.first_enqueued_at,
        snooze.until AS snoozed_until, snooze.note, snooze.person_name AS snoozed_by, snooze.created_at AS snoozed_at
    FROM stuck_id
    JOIN octo_lock AS lock ON lock.id = stuck_id.id AND lock.lease_id IS NOT NULL
    LEFT JOIN candidate ON candidate.id = lock.id
    LEFT JOIN invalid_token ON invalid_token.id = lock.token_id
    LEFT JOIN long_hold ON long_hold.lock_id = lock.id AND long_hold.fencing_token = lock.fencing_token
    LEFT JOIN not_renewed ON not_renewed.id = lock.id
    LEFT JOIN release_request ON release_request.id = lock.id
    LEFT JOIN long_queue ON long_queue.name = lock.name
    LEFT JOIN octo_snooze AS snooze ON snooze.space_id = lock.space_id AND snooze.lock_name = lock.name
        AND snooze.fencing_token = lock.fencing_token AND snooze.until > statement_timestamp()
    WHERE (
        candidate.is_overdue OR candidate.exceeds_max_hold OR invalid_token.id IS NOT NULL OR long_hold.lock_id IS NOT NULL
        OR not_renewed.id IS NOT NULL OR release_request.id IS NOT NULL OR long_queue.name IS NOT NULL
    ) AND (%(ids)s::bigint[] IS NULL OR lock.id = ANY (%(ids)s::bigint[]))
),
counted AS MATERIALIZED (
    SELECT
        count(*) FILTER (WHERE snoozed_until IS NULL) AS total,
        count(*) FILTER (WHERE snoozed_until IS NOT NULL) AS total_snoozed,
        count(*) FILTER (WHERE snoozed_until IS NULL AND is_overdue) AS total_overdue,
        count(*) FILTER (WHERE snoozed_until IS NULL AND has_invalid_token) AS total_invalid_token,
        count(*) FILTER (WHERE snoozed_until IS NULL AND exceeds_max_hold) AS total_max_hold,
        count(*) FILTER (WHERE snoozed_until IS NULL AND is_long_hold) AS total_long_hold,
        count(*) FILTER (WHERE snoozed_until IS NULL AND is_not_renewed) AS total_not_renewed,
        count(*) FILTER (WHERE snoozed_until IS NULL AND has_release_request) AS total_release_requested,
        count(*) FILTER (WHERE snoozed_until IS NULL AND has_long_queue) AS total_long_queue
    FROM stuck_lock
),
page AS (
    SELECT *, row_number() OVER () AS position
    FROM (
        SELECT *
        FROM stuck_lock
        WHERE (%(snoozed)s::boolean IS NULL OR (snoozed_until IS NOT NULL) = %(snoozed)s::boolean)
          AND CASE %(reason)s
            WHEN 'overdue' THEN is_overdue
            WHEN 'invalid_token' THEN has_invalid_token
            WHEN 'max_hold' THEN exceeds_max_hold
            WHEN 'long_hold' THEN is_long_hold
            WHEN 'not_renewed' THEN is_not_renewed
            WHEN 'release_requested' THEN has_release_request
            WHEN 'long_queue' THEN has_long_queue
            ELSE true
          END
        ORDER BY
            CASE WHEN is_overdue THEN 1 WHEN has_invalid_token THEN 2 WHEN exceeds_max_hold THEN 3 WHEN is_long_hold THEN 4
                 WHEN is_not_renewed THEN 5 WHEN has_release_request THEN 6 ELSE 7 END,
            acquired_at, name
        LIMIT %(rows)s OFFSET %(skipped)s
    ) AS sorted
)
SELECT
    lock.*,
    page.is_overdue, page.has_invalid_token, page.exceeds_max_hold, page.is_long_hold, page.is_not_renewed,
    page.has_release_request, page.has_long_queue, page.token_name, page.token_ended_at, page.token_is_revoked, page.sample_size, page.median_ms,
    page.p90_ms, page.others_renewed_at, page.others, page.requested_by, page.requested_at, page.request_reason,
    page.requests, page.first_enqueued_at,
    page.snoozed_until, page.note, page.snoozed_by, page.snoozed_at,
    counted.*,
    statement_timestamp() AS counted_at
FROM counted
LEFT JOIN (page JOIN octo_lock_row_v2 AS lock ON lock.id = page.id) ON true
ORDER BY page.position
