-- What is held in a space and needs somebody, with the reasons; the worst first. Changes nothing.
--
-- space_id, max_hold_seconds (or null), many_waiters, snoozed (whether those that were put off, or the others), reason
-- ('' for any), rows, skipped. The counts at the end are of all that is found, whatever the reason asked for.
--
-- One pass over what is held: what is usual for a lock stands in octo_usual_hold already. A renewal is due at half of
-- the TTL; a lock is forgotten when its own is late by then and its holder has renewed another one since.
WITH dead_token AS MATERIALIZED (
    SELECT id, name, coalesce(revoked_at, expires_at) AS ended_at, revoked_at IS NOT NULL AS revoked
    FROM octo_token
    WHERE space_id = %(space_id)s AND (revoked_at IS NOT NULL OR expires_at <= statement_timestamp())
),
crowd AS MATERIALIZED (
    SELECT name, count(*) AS waiters, min(waiting_since) AS first_since
    FROM octo_waiter
    WHERE space_id = %(space_id)s AND gives_up_at > statement_timestamp()
    GROUP BY name
),
late AS MATERIALIZED (
    SELECT lock_id, fencing_token, holds, median_ms, high_ms
    FROM octo_usual_hold
    WHERE space_id = %(space_id)s AND late_at <= statement_timestamp()
),
busy_holder AS MATERIALIZED (
    SELECT owner, holder_id, max(renewed_at) AS renewed_at, count(*) - 1 AS others
    FROM octo_lock
    WHERE space_id = %(space_id)s AND lease_id IS NOT NULL AND session_id IS NULL
      AND expires_at > statement_timestamp()
    GROUP BY owner, holder_id
    HAVING count(*) > 1 AND max(renewed_at) > min(renewed_at)
),
found AS MATERIALIZED (
    SELECT
        lock.id,
        lock.expires_at <= statement_timestamp() - interval '5 seconds' AS is_overdue,
        dead_token.id IS NOT NULL AS has_dead_token,
        lock.acquired_at + %(max_hold_seconds)s::int * interval '1 second' <= statement_timestamp() AS is_past_longest,
        late.lock_id IS NOT NULL AS is_late,
        busy_holder.owner IS NOT NULL AS is_forgotten,
        coalesce(crowd.waiters, 0) >= %(many_waiters)s AS is_crowded,
        dead_token.name AS token_name, dead_token.ended_at AS token_ended_at, dead_token.revoked AS token_revoked,
        late.holds AS usual_of, late.median_ms, late.high_ms,
        busy_holder.renewed_at AS others_renewed_at, busy_holder.others,
        coalesce(crowd.waiters, 0) AS waiters, crowd.first_since AS first_waits_since,
        snooze.until AS snoozed_until, snooze.note, snooze.person_name AS snoozed_by, snooze.created_at AS snoozed_at
    FROM octo_lock AS lock
    LEFT JOIN dead_token ON dead_token.id = lock.token_id
    LEFT JOIN crowd ON crowd.name = lock.name
    LEFT JOIN late ON late.lock_id = lock.id AND late.fencing_token = lock.fencing_token
    LEFT JOIN busy_holder ON busy_holder.owner = lock.owner AND busy_holder.holder_id = lock.holder_id
        AND lock.session_id IS NULL
        AND lock.expires_at > statement_timestamp()
        AND lock.renewed_at + lock.ttl_seconds * interval '0.6 seconds' < statement_timestamp()
        AND busy_holder.renewed_at > lock.renewed_at + lock.ttl_seconds * interval '0.6 seconds'
    LEFT JOIN octo_snooze AS snooze ON snooze.space_id = lock.space_id AND snooze.lock_name = lock.name
        AND snooze.fencing_token = lock.fencing_token AND snooze.until > statement_timestamp()
    WHERE lock.space_id = %(space_id)s AND lock.lease_id IS NOT NULL
      AND (
        lock.expires_at <= statement_timestamp() - interval '5 seconds'
        OR dead_token.id IS NOT NULL
        OR lock.acquired_at + %(max_hold_seconds)s::int * interval '1 second' <= statement_timestamp()
        OR late.lock_id IS NOT NULL
        OR busy_holder.owner IS NOT NULL
        OR crowd.waiters >= %(many_waiters)s
      )
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
)
SELECT
    lock.id,
    lock.name,
    CASE
        WHEN lock.expires_at > statement_timestamp() + interval '30 seconds' THEN 'held'
        WHEN lock.expires_at > statement_timestamp() + lock.ttl_seconds * interval '1 second' / 3 THEN 'held'
        WHEN lock.expires_at > statement_timestamp() THEN 'expiring'
        WHEN lock.expires_at + lock.lock_delay_seconds * interval '1 second' > statement_timestamp() THEN 'delayed'
        ELSE 'overdue'
    END AS state,
    lock.fencing_token, lock.owner, lock.metadata, lock.ttl_seconds, lock.acquired_at, lock.renewed_at,
    lock.expires_at, lock.expires_at + lock.lock_delay_seconds * interval '1 second' AS available_at,
    lock.renewals, lock.session_id IS NOT NULL AS in_session,
    found.waiters, found.is_overdue, found.has_dead_token, found.is_past_longest, found.is_late, found.is_forgotten,
    found.is_crowded, found.token_name, found.token_ended_at, found.token_revoked, found.usual_of, found.median_ms,
    found.high_ms, found.others_renewed_at, found.others, found.first_waits_since,
    found.snoozed_until, found.note, found.snoozed_by, found.snoozed_at,
    counted.*,
    statement_timestamp() AS now
FROM counted
LEFT JOIN (
    found JOIN octo_lock AS lock ON lock.id = found.id
) ON (found.snoozed_until IS NOT NULL) = %(snoozed)s
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
    lock.acquired_at, lock.name
LIMIT %(rows)s OFFSET %(skipped)s
