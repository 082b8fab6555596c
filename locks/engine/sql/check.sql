-- Check: for each name, the live leases of others that overlap with it, and whether a lease of the caller covers it. One row
-- for each name, in the order given. Changes nothing, and takes no guard: the answer is about one moment.
--
-- $1 is one requests.Check as JSON. A lease is the caller's own if its secret id is given, or if it is bound to the given
-- session of the token. A plain name overlaps only with itself (functions/namespaces.sql).
WITH auth AS MATERIALIZED (
    SELECT
        request.names, request.lease_ids, own_session.id AS session_id, auth.space_id, auth.namespaces, auth.prefixes,
        auth.requests_per_second, space.lock_policy,
        coalesce(auth.refusal, CASE
            WHEN request.session_id IS NULL THEN NULL
            WHEN own_session.id IS NULL THEN 'no_session'
            WHEN least(own_session.ended_at, own_session.expires_at) <= clock_timestamp() THEN 'session_over'
        END) AS refusal
    FROM json_to_record($1::json) AS request (digest text, names json, lease_ids uuid[], session_id uuid)
    CROSS JOIN LATERAL octo_auth_v2(request.digest, 'locks:read', NULL) AS auth
    LEFT JOIN octo_space AS space ON space.id = auth.space_id
    LEFT JOIN octo_session AS own_session
        ON own_session.id = request.session_id AND octo_token_owns_lease(auth.token_id, own_session.token_id)
)
SELECT
    coalesce(
        auth.refusal,
        CASE WHEN octo_name_matches_prefixes(requested.name, auth.prefixes) THEN 'listed' ELSE 'name_not_allowed' END
    ) AS verdict,
    requested.name,
    auth.lock_policy AS policy,
    coalesce(overlapping.is_covered, false) AS is_covered,
    octo_readable_leases(overlapping.blocked_by, auth.prefixes) AS blocked_by,
    clock_timestamp() AS now,
    auth.space_id,
    auth.requests_per_second
FROM auth
CROSS JOIN json_array_elements_text(auth.names) WITH ORDINALITY AS requested (name, index)
LEFT JOIN LATERAL (
    SELECT
        bool_or(lease.is_own AND lease.covers) AS is_covered,
        jsonb_agg(
            jsonb_build_object(
                'name', lease.name, 'owner', lease.owner, 'metadata', lease.metadata, 'holder_id', lease.holder_id,
                'fencing_token', lease.fencing_token, 'acquired_at', lease.acquired_at, 'expires_at', lease.ends_at)
            ORDER BY lease.acquired_at, lease.name) FILTER (WHERE NOT lease.is_own) AS blocked_by
    FROM (
        SELECT
            lock.name, lock.owner, lock.metadata, lock.holder_id, lock.fencing_token, lock.acquired_at,
            octo_effective_expiry(lock.expires_at, lock.bound_session_id) AS ends_at,
            bool_or(range.covers) AS covers, own.is_own
        FROM octo_overlapping_ranges(auth.namespaces, requested.name) AS range
        JOIN octo_lock AS lock
            ON lock.space_id = auth.space_id AND lock.lease_id IS NOT NULL
            AND lock.name >= range.low COLLATE "C" AND lock.name < range.high COLLATE "C"
        CROSS JOIN LATERAL (
            SELECT coalesce(lock.lease_id = ANY (auth.lease_ids), false)
                OR coalesce(lock.session_id = auth.session_id, false) AS is_own
        ) AS own
        WHERE auth.refusal IS NULL
          AND octo_effective_expiry(lock.expires_at, lock.bound_session_id) > clock_timestamp()
        GROUP BY lock.id, own.is_own
        ORDER BY own.is_own AND bool_or(range.covers) DESC, own.is_own, lock.acquired_at
        LIMIT 1000
    ) AS lease
) AS overlapping ON true
ORDER BY requested.index
