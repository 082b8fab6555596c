-- The first locks of each of some owners, those that end first before the others. Changes nothing.
--
-- space_id, owners and holder_ids (in pairs), each: the most locks of one.
SELECT
    id, name, fencing_token, owner, holder_id, metadata, whole_seconds, acquired_at, heard_at, lives_until,
    lives_until + lock_delay_seconds * interval '1 second' AS available_at, renewals, tied_to IS NOT NULL AS in_session,
    octo_state(trouble) AS state, 0 AS waiters,
    statement_timestamp() AS now
FROM (
    SELECT
        lock.*,
        row_number() OVER (PARTITION BY lock.owner, lock.holder_id ORDER BY lock.lives_until, lock.name) AS place
    FROM octo_standing AS lock
    JOIN unnest(%(owners)s::text[], %(holder_ids)s::text[]) AS wanted (owner, holder_id)
        ON wanted.owner = lock.owner AND wanted.holder_id = lock.holder_id
    WHERE lock.space_id = %(space_id)s AND lock.lease_id IS NOT NULL
) AS numbered
WHERE place <= %(each)s
ORDER BY owner, holder_id, place
