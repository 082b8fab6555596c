-- What is held in a space and needs somebody, with the reasons; the worst first. Changes nothing.
--
-- space_id, max_hold_seconds (or null), many_waiters, snoozed (whether those that were put off, or the others), reason
-- ('' for any), rows, skipped. The counts at the end are of all that is found, whatever the reason asked for, and come
-- on a row without a lock if there is nothing to list.
--
-- One pass over what is held finds the few that are suspect; what is usual for a lock stands in octo_hold_baseline already.
-- A token that was replaced is not dead: its successor renews what it took.
-- A renewal is due at half of the TTL: a lock is forgotten when its own is late and its holder has renewed another since.
WITH dead_token AS MATERIALIZED (
    SELECT id, name, coalesce(revoked_at, expires_at) AS ended_at, revoked_at IS NOT NULL AS revoked
    FROM octo_token
    WHERE space_id = %(space_id)s AND (revoked_at IS NOT NULL OR expires_at <= statement_timestamp())
      AND NOT (revoked_at IS NULL AND rotated_at IS NOT NULL AND EXISTS (
          SELECT FROM octo_token AS successor
          WHERE successor.space_id = octo_token.space_id AND successor.name = octo_token.name
            AND successor.rotated_at IS NULL AND successor.revoked_at IS NULL
            AND coalesce(successor.expires_at > statement_timestamp(), true)
      ))
),
crowd AS MATERIALIZED (
    SELECT name, count(*) AS waiters, min(enqueued_at) AS first_since
    FROM octo_waiter
    WHERE space_id = %(space_id)s AND handed_lease_id IS NULL AND deadline_at > statement_timestamp()
    GROUP BY name
    HAVING count(*) >= %(many_waiters)s
),
late AS MATERIALIZED (
    SELECT lock_id, fencing_token, sample_size, median_ms, p90_ms
    FROM octo_hold_baseline
    WHERE space_id = %(space_id)s AND anomalous_after <= statement_timestamp()
),
suspect AS MATERIALIZED (
    SELECT
        id, owner, holder_id, renewed_at + effective_ttl * interval '0.6 seconds' AS due_at,
        effective_expires_at <= statement_timestamp() - interval '5 seconds' AS is_overdue,
        coalesce(acquired_at + %(max_hold_seconds)s::int * interval '1 second' <= statement_timestamp(), false)
            AS is_past_longest,
        token_id IN (SELECT id FROM dead_token) AS has_dead_token,
        session_id IS NULL AND effective_expires_at > statement_timestamp()
            AND renewed_at + effective_ttl * interval '0.6 seconds' < statement_timestamp() AS is_silent
    FROM octo_lock_state
    WHERE space_id = %(space_id)s AND lease_id IS NOT NULL
      AND (
        effective_expires_at <= statement_timestamp() - interval '5 seconds'
        OR acquired_at + %(max_hold_seconds)s::int * interval '1 second' <= statement_timestamp()
        OR token_id IN (SELECT id FROM dead_token)
        OR (session_id IS NULL AND renewed_at + effective_ttl * interval '0.6 seconds' < statement_timestamp())
      )
),
busy_holder AS MATERIALIZED (
    SELECT lock.owner, lock.holder_id, max(lock.renewed_at) AS renewed_at, count(*) - 1 AS others
    FROM octo_lock_state AS lock
    WHERE lock.space_id = %(space_id)s AND lock.lease_id IS NOT NULL AND lock.session_id IS NULL
      AND lock.effective_expires_at > statement_timestamp()
      AND (lock.owner, lock.holder_id) IN (SELECT owner, holder_id FROM suspect WHERE is_silent)
    GROUP BY lock.owner, lock.holder_id
    HAVING max(lock.renewed_at) > min(lock.renewed_at)
),
forgotten AS MATERIALIZED (
    SELECT suspect.id, busy_holder.renewed_at, busy_holder.others
    FROM suspect
    JOIN busy_holder ON busy_holder.owner = suspect.owner AND busy_holder.holder_id = suspect.holder_id
        AND busy_holder.renewed_at > suspect.due_at
    WHERE suspect.is_silent
),
stuck AS (
    SELECT id FROM suspect WHERE is_overdue OR is_past_longest OR has_dead_token
    UNION
    SELECT id FROM forgotten
    UNION
    SELECT lock_id FROM late
    UNION
    SELECT lock.id FROM crowd JOIN octo_lock AS lock ON lock.space_id = %(space_id)s AND lock.name = crowd.name
),
found AS MATERIALIZED (
    SELECT
        lock.id, lock.name, lock.acquired_at,
        coalesce(suspect.is_overdue, false) AS is_overdue,
        dead_token.id IS NOT NULL AS has_dead_token,
        coalesce(suspect.is_past_longest, false) AS is_past_longest,
        late.lock_id IS NOT NULL AS is_late,
        forgotten.id IS NOT NULL AS is_forgotten,
        crowd.name IS NOT NULL AS is_crowded,
        dead_token.name AS token_name, dead_token.ended_at AS token_ended_at, dead_token.revoked AS token_revoked,
        late.sample_size AS usual_of, late.median_ms, late.p90_ms,
        forgotten.renewed_at AS others_renewed_at, forgotten.others,
        crowd.first_since AS first_waits_since,
        snooze.until AS snoozed_until, snooze.note, snooze.person_name AS snoozed_by, snooze.created_at AS snoozed_at
    FROM stuck
    JOIN octo_lock AS lock ON lock.id = stuck.id AND lock.lease_id IS NOT NULL
    LEFT JOIN suspect ON suspect.id = lock.id
    LEFT JOIN dead_token ON dead_token.id = lock.token_id
    LEFT JOIN late ON late.lock_id = lock.id AND late.fencing_token = lock.fencing_token
    LEFT JOIN forgotten ON forgotten.id = lock.id
    LEFT JOIN crowd ON crowd.name = lock.name
    LEFT JOIN octo_snooze AS snooze ON snooze.space_id = lock.space_id AND snooze.lock_name = lock.name
        AND snooze.fencing_token = lock.fencing_token AND snooze.until > statement_timestamp()
    WHERE suspect.is_overdue OR suspect.is_past_longest OR dead_token.id IS NOT NULL OR late.lock_id IS NOT NULL
       OR forgotten.id IS NOT NULL OR crowd.name IS NOT NULL
),
counted AS MATERIALIZED (
    SELECT
        count(*) FILTER (WHERE snoozed_until IS NULL) AS all_stuck,
        count(*) FILTER (WHERE snoozed_until IS NOT NULL) AS all_snoozed,
        count(*) FILTER (WHERE snoozed_until IS NULL AND is_overdue) AS all_overdue,
        count(*) FILTER (WHERE snoozed_until IS NULL AND has_dead_token) AS all_dead_token,
        count(*) FILTER (WHERE snoozed_until IS NULL AND is_past_longest) AS all_past_longest,
        count(*) FILTER (WHERE snoozed_until IS NULL AND is_late) AS all_late,
        count(*) FILTER (WHERE snoozed_until IS NULL AND is_forgotten) AS all_forgotten,
        count(*) FILTER (WHERE snoozed_until IS NULL AND is_crowded) AS all_crowded
    FROM found
),
page AS (
    SELECT *, row_number() OVER () AS place
    FROM (
        SELECT *
        FROM found
        WHERE (snoozed_until IS NOT NULL) = %(snoozed)s
          AND CASE %(reason)s
            WHEN 'overdue' THEN is_overdue
            WHEN 'dead_token' THEN has_dead_token
            WHEN 'past_longest' THEN is_past_longest
            WHEN 'late' THEN is_late
            WHEN 'forgotten' THEN is_forgotten
            WHEN 'crowded' THEN is_crowded
            ELSE true
          END
        ORDER BY
            CASE WHEN is_overdue THEN 1 WHEN has_dead_token THEN 2 WHEN is_past_longest THEN 3 WHEN is_late THEN 4
                 WHEN is_forgotten THEN 5 ELSE 6 END,
            acquired_at, name
        LIMIT %(rows)s OFFSET %(skipped)s
    ) AS sorted
)
SELECT
    lock.id,
    lock.name,
    octo_severity_name(lock.severity) AS state,
    lock.fencing_token, lock.owner, lock.metadata, lock.effective_ttl, lock.acquired_at, lock.last_heartbeat_at, lock.effective_expires_at,
    lock.effective_expires_at + lock.lock_delay_seconds * interval '1 second' AS available_at,
    lock.renewals, lock.bound_session_id IS NOT NULL AS in_session,
    (
        SELECT count(*) FROM octo_waiter
        WHERE octo_waiter.space_id = lock.space_id AND octo_waiter.name = lock.name
          AND octo_waiter.handed_lease_id IS NULL AND octo_waiter.deadline_at > statement_timestamp()
    ) AS waiters,
    page.is_overdue, page.has_dead_token, page.is_past_longest, page.is_late, page.is_forgotten,
    page.is_crowded, page.token_name, page.token_ended_at, page.token_revoked, page.usual_of, page.median_ms,
    page.p90_ms, page.others_renewed_at, page.others, page.first_waits_since,
    page.snoozed_until, page.note, page.snoozed_by, page.snoozed_at,
    counted.*,
    statement_timestamp() AS now
FROM counted
LEFT JOIN (page JOIN octo_lock_state AS lock ON lock.id = page.id) ON true
ORDER BY page.place
