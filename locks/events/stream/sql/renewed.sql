-- The watched leases that were renewed since a moment.
--
-- $1 and $2 spaces and names, side by side · $3 spaces that are watched as a whole · $4 since · $5 limit
--
-- Renewals leave no event. There is always a row, which carries the clock.
SELECT
    clock.now, lock.space_id, lock.name, lock.fencing_token, lock.owner, lock.metadata,
    octo_effective_expiry(lock.expires_at, lock.bound_session_id) AS expires_at, lock.renewed_at
FROM (SELECT clock_timestamp() AS now) AS clock
LEFT JOIN LATERAL (
    SELECT space_id, name, fencing_token, owner, metadata, expires_at, bound_session_id, renewed_at
    FROM octo_lock
    JOIN unnest($1::bigint[], $2::text[]) AS watched (space_id, name) USING (space_id, name)
    WHERE lease_id IS NOT NULL AND renewals > 0 AND renewed_at > $4::timestamptz AND expires_at > clock.now
    UNION
    SELECT space_id, name, fencing_token, owner, metadata, expires_at, bound_session_id, renewed_at
    FROM octo_lock
    WHERE space_id = ANY ($3::bigint[])
      AND lease_id IS NOT NULL AND renewals > 0 AND renewed_at > $4::timestamptz AND expires_at > clock.now
    LIMIT $5::int
) AS lock ON true
