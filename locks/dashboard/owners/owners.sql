-- The owners that hold a lock, wait for one or have a session in a space: a row for each owner under each token and session.
-- Changes nothing.
--
-- space_id; search and owner ('' for all); sort; rows; skipped. The holder id stands for token and session, since the id of a session
-- is a secret.
WITH session AS MATERIALIZED (
    SELECT
        octo_session.owner, octo_session.token_id, octo_session.last_keepalive_at,
        octo_holder_id(octo_token.public_id, octo_session.id) AS holder_id
    FROM octo_session
    JOIN octo_token ON octo_token.id = octo_session.token_id
    WHERE octo_session.space_id = %(space_id)s AND octo_session.ended_at IS NULL
      AND octo_session.expires_at > statement_timestamp()
      AND (%(owner)s = '' OR octo_session.owner = %(owner)s)
),
part AS (
    SELECT
        owner, holder_id, token_id, session_id IS NOT NULL AS in_session,
        count(*) FILTER (WHERE effective_expires_at > statement_timestamp()) AS holding,
        count(*) FILTER (WHERE effective_expires_at <= statement_timestamp()) AS overdue,
        count(*) FILTER (WHERE is_heartbeating) AS heartbeating,
        0 AS waiting,
        -- A reservation, which has no token, is not renewed.
        max(last_heartbeat_at) FILTER (WHERE token_id IS NOT NULL) AS last_heartbeat_at,
        min(acquired_at) AS since
    FROM octo_lock_state_v2
    WHERE space_id = %(space_id)s AND lease_id IS NOT NULL AND (%(owner)s = '' OR owner = %(owner)s)
    GROUP BY owner, holder_id, token_id, session_id IS NOT NULL
    UNION ALL
    SELECT
        waiter.owner, octo_holder_id(octo_token.public_id, waiter.session_id), waiter.token_id,
        waiter.session_id IS NOT NULL, 0, 0, 0, 1, NULL, waiter.enqueued_at
    FROM octo_queued_waiter AS waiter
    JOIN octo_token ON octo_token.id = waiter.token_id
    WHERE waiter.space_id = %(space_id)s AND (%(owner)s = '' OR waiter.owner = %(owner)s)
    UNION ALL
    SELECT owner, holder_id, token_id, true, 0, 0, 0, 0, last_keepalive_at, NULL FROM session
),
owner AS (
    SELECT
        owner, holder_id, max(token_id) AS token_id, bool_or(in_session) AS in_session,
        sum(holding)::bigint AS holding, sum(overdue)::bigint AS overdue, sum(heartbeating)::bigint AS heartbeating,
        sum(waiting)::bigint AS waiting, max(last_heartbeat_at) AS last_heartbeat_at, min(since) AS since
    FROM part
    GROUP BY owner, holder_id
)
SELECT
    owner.owner, owner.holder_id, owner.in_session, owner.holding, owner.overdue, owner.heartbeating, owner.waiting,
    owner.last_heartbeat_at, owner.since, token.name AS token_name,
    token.public_id AS token_public_id,
    coalesce(owner.token_id IN (SELECT id FROM octo_invalid_token WHERE space_id = %(space_id)s), false) AS token_is_invalid,
    count(*) OVER () AS total,
    statement_timestamp() AS now
FROM owner
-- A person who has reserved a lock has no token.
LEFT JOIN octo_token AS token ON token.id = owner.token_id
WHERE %(search)s = '' OR owner.owner ILIKE octo_contains_pattern(%(search)s) OR token.name ILIKE octo_contains_pattern(%(search)s)
ORDER BY
    CASE WHEN %(sort)s = 'silent' THEN owner.holding + owner.overdue = 0 END,
    CASE WHEN %(sort)s = 'silent' THEN owner.heartbeating > 0 END,
    CASE WHEN %(sort)s = 'silent' THEN owner.last_heartbeat_at END,
    CASE WHEN %(sort)s = 'holding' THEN owner.holding END DESC NULLS LAST,
    CASE WHEN %(sort)s = 'waiting' THEN owner.waiting END DESC NULLS LAST,
    owner.owner, owner.holder_id
LIMIT %(rows)s OFFSET %(skipped)s
