-- The first locks of each of some owners, those that end first on top. Changes nothing.
--
-- space_id; owners and holder_ids in pairs; each: the maximum for one owner.
SELECT lock.*
FROM (
    SELECT
        state.id,
        row_number() OVER (PARTITION BY state.owner, state.holder_id ORDER BY state.effective_expires_at, state.name) AS position
    FROM octo_lock_state_v2 AS state
    JOIN unnest(%(owners)s::text[], %(holder_ids)s::text[]) AS requested (owner, holder_id)
        ON requested.owner = state.owner AND requested.holder_id = state.holder_id
    WHERE state.space_id = %(space_id)s AND state.lease_id IS NOT NULL
) AS numbered
JOIN octo_lock_row_v2 AS lock ON lock.id = numbered.id
WHERE numbered.position <= %(each)s
ORDER BY lock.owner, lock.holder_id, numbered.position
