-- Hands a free lock to the first waiter that is present and may have it: stores the id of the new lease in its row and
-- returns the row. The caller has locked the lock. Without a space there is nothing to hand over.
--
-- Volatile on purpose: the query of a volatile function sees what was committed until it is called, not only what the
-- snapshot of its caller shows. So the queue is read as it is while the lock is locked, and a waiter that joined while the
-- caller waited for that lock counts. FOR UPDATE skips waiters that have left meanwhile. The first one is materialized: a join
-- that runs its inner side again would skip the waiter that it has just changed, and hand the lock to the next as well.
--
-- A waiter is present for HEARTBEAT_TIMEOUT_SECONDS (locks/engine/handover.py) after a heartbeat of its server process, and
-- after its own arrival, which may come before the first heartbeat.
CREATE FUNCTION octo_hand_to_first_waiter(
    space bigint, lock_name text, now timestamptz, space_archived_at timestamptz, ending_sessions uuid[], acl text[]
) RETURNS TABLE (
    waiter_id bigint, server_id uuid, lease_id uuid, token_id bigint, session_id uuid, bound_session_id uuid, owner text,
    metadata text, ttl_seconds int, lock_delay_seconds int, idempotency_digest bytea, request_digest bytea,
    request_id text, channel text, address inet, enqueued_at timestamptz, public_id text, token_name text
) LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
BEGIN
    IF octo_hand_to_first_waiter.space IS NULL THEN
        RETURN;
    END IF;
    RETURN QUERY
    WITH first AS MATERIALIZED (
        SELECT candidate.id, token.public_id, token.name
        FROM octo_waiter AS candidate
        JOIN octo_token AS token ON token.id = candidate.token_id
        WHERE candidate.space_id = octo_hand_to_first_waiter.space
          AND candidate.name = octo_hand_to_first_waiter.lock_name
          AND candidate.handed_lease_id IS NULL
          AND candidate.deadline_at > octo_hand_to_first_waiter.now
          AND greatest(candidate.enqueued_at, (
              SELECT server.last_heartbeat_at FROM octo_server_process AS server WHERE server.id = candidate.server_id
          )) > octo_hand_to_first_waiter.now - interval '900 milliseconds'
          AND octo_token_is_valid(
              token.revoked_at, token.expires_at, octo_hand_to_first_waiter.space_archived_at,
              octo_hand_to_first_waiter.now)
          AND 'locks:write' = ANY (token.scopes)
          AND NOT token.is_draining
          AND octo_name_matches_prefixes(candidate.name, token.prefixes)
          AND octo_acl_allows(octo_hand_to_first_waiter.acl, candidate.token_id)
          AND (candidate.session_id IS NULL OR EXISTS (
              SELECT FROM octo_session AS session
              WHERE session.id = candidate.session_id AND session.ended_at IS NULL
                AND session.expires_at > octo_hand_to_first_waiter.now
                AND session.id <> ALL (octo_hand_to_first_waiter.ending_sessions)))
        ORDER BY candidate.queue_seq, candidate.id
        LIMIT 1
        FOR UPDATE OF candidate
    )
    UPDATE octo_waiter AS waiter SET handed_lease_id = gen_random_uuid()
    FROM first
    WHERE waiter.id = first.id
    RETURNING
        waiter.id, waiter.server_id, waiter.handed_lease_id, waiter.token_id, waiter.session_id,
        waiter.bound_session_id, waiter.owner, waiter.metadata, waiter.ttl_seconds, waiter.lock_delay_seconds,
        waiter.idempotency_digest, waiter.request_digest, waiter.request_id, waiter.channel, waiter.address,
        waiter.enqueued_at, first.public_id::text, first.name::text;
END
$$;
