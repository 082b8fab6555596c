-- Extends the lease that a person has reserved, or hands it over to another person. One row.
--
-- $1 is one requests.ChangeReservation as JSON: the lease is extended by `extend_seconds`, or gets the owner `new_user_id`.
-- The caller has checked what the two persons may do in the space.
--
-- The row is locked first and the clock read after, as in acquire.sql. A lease that is handed over is a new one, with its own
-- fencing token, and ends when the old one would have: nothing is free in between, so no waiter gets the lock. An extension
-- ends at the limits of the space, whatever was asked for; if there is nothing to gain the verdict is `max_hold_reached`.
WITH request AS MATERIALIZED (
    SELECT *
    FROM json_to_record($1::json) AS request (
        space_id bigint, name text COLLATE "C", actor_id bigint, actor_name text, expected_fencing_token bigint,
        extend_seconds int, new_user_id bigint, new_owner text, channel text, address inet, request_id text
    )
),
locked AS MATERIALIZED (
    SELECT lock.*, space.team_id, space.max_ttl_seconds, space.max_hold_seconds
    FROM request
    JOIN octo_space AS space ON space.id = request.space_id
    JOIN octo_lock AS lock ON lock.space_id = request.space_id AND lock.name = request.name
    FOR NO KEY UPDATE OF lock
),
clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now, locked_rows FROM (SELECT count(*) AS locked_rows FROM locked) AS all_locked
),
asked AS MATERIALIZED (
    SELECT
        locked.*, clock.now,
        CASE WHEN request.new_user_id IS NULL THEN least(
            locked.expires_at + request.extend_seconds * interval '1 second',
            octo_lease_expiry(clock.now, locked.max_ttl_seconds, locked.acquired_at, locked.max_hold_seconds)
        ) ELSE locked.expires_at END AS new_expires_at
    FROM locked
    CROSS JOIN clock
    CROSS JOIN request
),
decision AS MATERIALIZED (
    SELECT
        asked.*,
        CASE
            WHEN asked.lease_id IS NULL OR asked.expires_at <= asked.now THEN 'not_held'
            WHEN asked.token_id IS NOT NULL OR asked.holder_id <> octo_person_holder_id(request.actor_id)
                THEN 'held_by_another'
            WHEN asked.fencing_token <> request.expected_fencing_token THEN 'fencing_mismatch'
            WHEN request.new_user_id IS NOT NULL THEN 'acquired'
            WHEN asked.new_expires_at <= asked.expires_at THEN 'max_hold_reached'
            ELSE 'renewed'
        END AS verdict
    FROM asked
    CROSS JOIN request
),
extended AS (
    UPDATE octo_lock AS lock SET
        expires_at = decision.new_expires_at, renewed_at = greatest(lock.renewed_at, decision.now),
        ttl_seconds = ceil(extract(epoch FROM decision.new_expires_at - decision.now)), renewals = lock.renewals + 1,
        updated_at = decision.now
    FROM decision
    WHERE lock.id = decision.id AND decision.verdict = 'renewed'
),
new_lease AS MATERIALIZED (
    SELECT
        decision.*, octo_next_fencing_token(decision.fencing_token, decision.now) AS new_fencing_token,
        octo_person_holder_id(request.new_user_id) AS new_holder_id
    FROM decision
    CROSS JOIN request
    WHERE decision.verdict = 'acquired'
),
handed_over AS (
    UPDATE octo_lock AS lock SET
        lease_id = gen_random_uuid(), fencing_token = new.new_fencing_token, holder_id = new.new_holder_id,
        owner = request.new_owner, acquired_at = new.now, renewed_at = new.now, renewals = 0,
        -- Constraints are checked on the row of the snapshot first, which an extension may have changed since.
        expires_at = new.expires_at,
        ttl_seconds = ceil(extract(epoch FROM new.expires_at - new.now)), updated_at = new.now
    FROM new_lease AS new
    CROSS JOIN request
    WHERE lock.id = new.id
),
recorded AS (
    INSERT INTO octo_event_entry
    SELECT event.*
    FROM decision
    CROSS JOIN request
    LEFT JOIN new_lease AS new ON true
    CROSS JOIN LATERAL (
        SELECT * FROM octo_end_event(
            'released', decision.now, decision.team_id, decision.space_id, decision.name, decision.fencing_token,
            decision.owner, decision.holder_id, decision.metadata, NULL, decision.acquired_at, decision.now,
            request.channel, request.request_id, 'user', request.actor_id, request.actor_name, request.address,
            'handed over to ' || request.new_owner, jsonb_build_object('handed_over_to', request.new_owner))
        WHERE decision.verdict = 'acquired'
        UNION ALL
        SELECT * FROM octo_grant_event_v2(
            decision.now, decision.team_id, decision.space_id, decision.name, new.new_fencing_token, request.new_owner,
            new.new_holder_id, decision.metadata, NULL, request.actor_name, request.channel, request.address,
            request.request_id, jsonb_build_object('handed_over_by', request.actor_name), request.actor_id)
        WHERE decision.verdict = 'acquired'
        UNION ALL
        SELECT
            decision.now, 'extended', decision.team_id, decision.space_id, decision.name, decision.fencing_token,
            decision.owner, decision.holder_id, decision.metadata, NULL::bigint, 'user', request.actor_id,
            request.actor_name, request.channel, request.address, request.request_id, NULL::text, NULL::bigint,
            NULL::bigint, jsonb_build_object('until', decision.new_expires_at)
        WHERE decision.verdict = 'renewed'
    ) AS event
    ORDER BY event.fencing_token
)
SELECT
    coalesce(decision.verdict, 'not_held') AS verdict,
    request.name,
    coalesce(new.new_fencing_token, decision.fencing_token) AS fencing_token,
    CASE WHEN new.id IS NULL THEN decision.owner ELSE request.new_owner END AS owner,
    decision.new_expires_at AS expires_at,
    clock.now
FROM request
CROSS JOIN clock
LEFT JOIN decision ON true
LEFT JOIN new_lease AS new ON true
