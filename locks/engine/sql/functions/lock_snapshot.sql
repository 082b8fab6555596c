-- A lock as the statement's snapshot shows it, for a request that wants to acquire it. Always one row; `lock_id` is null
-- if the name has no row yet. The `state` is:
--   recognised      held by this caller: the same idempotency key, holder (octo_is_same_holder) or handed lease
--   not_listed      the lock has an access list that does not include the token
--   held            held by another
--   needs_handover  the lease seems to have ended with its session, or requests may be waiting for the free lock
--   delayed         free, but its lock delay is not over, or the name is frozen (freeze.sql)
--   open            free
CREATE FUNCTION octo_lock_snapshot_v2(
    space bigint, name text, token bigint, session uuid, idempotency_digest bytea,
    octostore_compatibility boolean, handed_lease_id uuid, frozen_until timestamptz
) RETURNS TABLE (
    lock_id bigint, held_fencing_token bigint, held_lease_id uuid, held_holder_id text, held_token_id bigint,
    held_owner text, held_metadata text, held_acquired_at timestamptz, held_expires_at timestamptz,
    held_idempotency_digest bytea, held_request_digest bytea, held_delay_seconds int, held_session_id uuid,
    last_waiter_id bigint, effective_expires_at timestamptz, available_at timestamptz, state text, active_freeze jsonb
) LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT
        lock.id, lock.fencing_token, lock.lease_id, lock.holder_id, lock.token_id, lock.owner, lock.metadata,
        lock.acquired_at, lock.expires_at, lock.idempotency_digest, lock.request_digest, lock.lock_delay_seconds,
        lock.session_id, lock.last_waiter_id, lock.effective_expires_at,
        octo_open_at(
            octo_available_at(lock.available_at, lock.effective_expires_at, lock.lock_delay_seconds), frozen.active_freeze),
        CASE
            WHEN lock.effective_expires_at > clock_timestamp() THEN
                CASE
                    WHEN lock.token_id = octo_lock_snapshot_v2.token
                         AND lock.idempotency_digest = octo_lock_snapshot_v2.idempotency_digest THEN 'recognised'
                    WHEN octo_is_same_holder(
                        octo_lock_snapshot_v2.token, octo_lock_snapshot_v2.session, lock.token_id, lock.session_id,
                        octo_lock_snapshot_v2.octostore_compatibility) THEN 'recognised'
                    WHEN lock.lease_id = octo_lock_snapshot_v2.handed_lease_id THEN 'recognised'
                    WHEN NOT octo_acl_allows(lock.acl, octo_lock_snapshot_v2.token) THEN 'not_listed'
                    ELSE 'held'
                END
            WHEN NOT octo_acl_allows(lock.acl, octo_lock_snapshot_v2.token) THEN 'not_listed'
            WHEN lock.effective_expires_at IS DISTINCT FROM lock.expires_at THEN 'needs_handover'
            WHEN octo_available_at(lock.available_at, lock.expires_at, lock.lock_delay_seconds) > clock_timestamp()
                THEN 'delayed'
            WHEN frozen.active_freeze IS NOT NULL THEN 'delayed'
            WHEN lock.last_waiter_id IS NOT NULL THEN 'needs_handover'
            -- A request that joins the queue while the row is locked has its place before the row says so.
            WHEN EXISTS (
                SELECT FROM octo_waiter
                WHERE octo_waiter.space_id = octo_lock_snapshot_v2.space AND octo_waiter.name = octo_lock_snapshot_v2.name
                  AND octo_waiter.handed_lease_id IS NULL
            ) THEN 'needs_handover'
            ELSE 'open'
        END,
        frozen.active_freeze
    FROM (
        SELECT octo_freeze_of(
            octo_lock_snapshot_v2.space, octo_lock_snapshot_v2.frozen_until, octo_lock_snapshot_v2.name) AS active_freeze
    ) AS frozen
    LEFT JOIN LATERAL (
        SELECT
            octo_lock.*,
            octo_effective_expiry(octo_lock.expires_at, octo_lock.bound_session_id) AS effective_expires_at
        FROM octo_lock
        WHERE octo_lock.space_id = octo_lock_snapshot_v2.space AND octo_lock.name = octo_lock_snapshot_v2.name
        LIMIT 1
    ) AS lock ON true
$$;

-- The same for a request that has a lease: `own` if the lock is held with it and it belongs to the token,
-- `held_by_another`, `not_held`, or `needs_handover` if the lease seems to have ended with its session. The token of a lease
-- never changes, so a lease id that is `own` here is the caller's in the locked row too.
CREATE FUNCTION octo_own_lock_snapshot(space bigint, name text, lease uuid, token bigint) RETURNS TABLE (
    lock_id bigint, session_expires_at timestamptz, state text
) LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT
        lock.id, lock.session_expires_at,
        CASE
            WHEN lock.lease_id = octo_own_lock_snapshot.lease
                 AND octo_token_owns_lease(octo_own_lock_snapshot.token, lock.token_id) THEN
                CASE WHEN lock.session_expires_at <= clock_timestamp() THEN 'needs_handover' ELSE 'own' END
            WHEN least(lock.expires_at, lock.session_expires_at) > clock_timestamp() THEN 'held_by_another'
            ELSE 'not_held'
        END
    FROM (SELECT) AS request
    LEFT JOIN LATERAL (
        SELECT
            octo_lock.id, octo_lock.lease_id, octo_lock.token_id, octo_lock.expires_at,
            CASE WHEN bound_session_id IS NOT NULL THEN octo_session_ends_at(bound_session_id) END
                AS session_expires_at
        FROM octo_lock
        WHERE octo_lock.space_id = octo_own_lock_snapshot.space AND octo_lock.name = octo_own_lock_snapshot.name
        LIMIT 1
    ) AS lock ON true
$$;
