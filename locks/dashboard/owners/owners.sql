-- Who holds, waits or has a session in a space: a row for each owner under each token and session. Changes nothing.
--
-- space_id, search and pattern ('' for all), sort, rows, skipped. The holder's pseudonym stands for token and session;
-- the id of a session is a secret and never leaves. A lock beats while it was renewed about as often as before, one of a
-- session while the session is kept alive.
WITH session AS MATERIALIZED (
    SELECT
        octo_session.id, octo_session.owner, octo_session.token_id, octo_session.last_keepalive_at,
        octo_session.expires_at, octo_session.ttl_seconds,
        octo_holder_id(octo_token.public_id, octo_session.id) AS holder_id
    FROM octo_session
    JOIN octo_token ON octo_token.id = octo_session.token_id
    WHERE octo_session.space_id = %(space_id)s AND octo_session.ended_at IS NULL
      AND octo_session.expires_at > statement_timestamp()
),
part AS (
    SELECT
        lock.owner, lock.holder_id, lock.token_id, lock.session_id IS NOT NULL AS in_session,
        count(*) FILTER (WHERE lock.effective_expires_at > statement_timestamp()) AS holding,
        count(*) FILTER (WHERE lock.effective_expires_at <= statement_timestamp()) AS overdue,
        count(*) FILTER (
            WHERE lock.effective_expires_at > statement_timestamp() AND (
                session.last_keepalive_at + session.ttl_seconds * interval '0.6 seconds' > statement_timestamp()
                OR statement_timestamp() - lock.renewed_at <= interval '2 seconds' + 1.5 * CASE
                    WHEN lock.renewals > 0 THEN (lock.renewed_at - lock.acquired_at) / lock.renewals
                    ELSE least(lock.effective_ttl * interval '0.5 seconds', interval '1 minute')
                END
            )
        ) AS beating,
        0 AS waiting,
        max(lock.last_heartbeat_at) AS last_heartbeat_at,
        min(lock.acquired_at) AS since
    FROM octo_lock_state AS lock
    LEFT JOIN session ON session.id = lock.session_id
    WHERE lock.space_id = %(space_id)s AND lock.lease_id IS NOT NULL
    GROUP BY lock.owner, lock.holder_id, lock.token_id, lock.session_id IS NOT NULL
    UNION ALL
    SELECT
        waiter.owner, octo_holder_id(octo_token.public_id, waiter.session_id), waiter.token_id,
        waiter.session_id IS NOT NULL, 0, 0, 0, 1, NULL, waiter.enqueued_at
    FROM octo_waiter AS waiter
    JOIN octo_token ON octo_token.id = waiter.token_id
    WHERE waiter.space_id = %(space_id)s AND waiter.handed_lease_id IS NULL AND waiter.deadline_at > statement_timestamp()
    UNION ALL
    SELECT owner, holder_id, token_id, true, 0, 0, 0, 0, last_keepalive_at, NULL FROM session
),
owner AS (
    SELECT
        part.owner, part.holder_id, max(part.token_id) AS token_id, bool_or(part.in_session) AS in_session,
        sum(part.holding)::bigint AS holding, sum(part.overdue)::bigint AS overdue, sum(part.beating)::bigint AS beating,
        sum(part.waiting)::bigint AS waiting, max(part.last_heartbeat_at) AS last_heartbeat_at, min(part.since) AS since
    FROM part
    GROUP BY part.owner, part.holder_id
)
SELECT
    owner.owner, owner.holder_id, owner.in_session, owner.holding, owner.overdue, owner.beating, owner.waiting,
    owner.last_heartbeat_at, owner.since, token.name AS token_name,
    (token.revoked_at IS NOT NULL OR coalesce(token.expires_at <= statement_timestamp(), false))
        AND NOT (token.revoked_at IS NULL AND token.rotated_at IS NOT NULL AND EXISTS (
            -- Its successor renews what it took.
            SELECT FROM octo_token AS successor
            WHERE successor.space_id = token.space_id AND successor.name = token.name
              AND successor.rotated_at IS NULL AND successor.revoked_at IS NULL
              AND coalesce(successor.expires_at > statement_timestamp(), true)
        )) AS token_is_dead,
    count(*) OVER () AS found,
    statement_timestamp() AS now
FROM owner
JOIN octo_token AS token ON token.id = owner.token_id
WHERE %(search)s = '' OR owner.owner ILIKE %(pattern)s OR token.name ILIKE %(pattern)s
ORDER BY
    CASE WHEN %(sort)s = 'silent' THEN owner.holding + owner.overdue = 0 END,
    CASE WHEN %(sort)s = 'silent' THEN owner.beating > 0 END,
    CASE WHEN %(sort)s = 'silent' THEN owner.last_heartbeat_at END,
    CASE WHEN %(sort)s = 'holding' THEN owner.holding END DESC NULLS LAST,
    CASE WHEN %(sort)s = 'waiting' THEN owner.waiting END DESC NULLS LAST,
    owner.owner, owner.holder_id
LIMIT %(rows)s OFFSET %(skipped)s
