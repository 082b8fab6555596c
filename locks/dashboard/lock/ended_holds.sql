-- The ended holds of a lock, the latest first. Changes nothing. The event that ends a hold describes all of it.
--
-- space_id; name; since (or null); before_at and before_id (or null): the event after which the page begins; rows.
SELECT
    id AS event_id,
    kind AS end_kind,
    lock_name,
    coalesce(owner, '') AS owner,
    metadata,
    fencing_token,
    actor_name,
    reason,
    at AS recorded_at,
    at - (coalesce(held_ms, 0) + coalesce(recorded_late_ms, 0)) * interval '1 millisecond' AS began_at,
    at - coalesce(recorded_late_ms, 0) * interval '1 millisecond' AS ended_at,
    coalesce(held_ms, 0) AS held_ms
FROM octo_event
WHERE space_id = %(space_id)s
  AND lock_name = %(name)s
  AND kind IN ('released', 'expired', 'force_released')
  AND (%(since)s::timestamptz IS NULL OR at > %(since)s)
  AND (%(before_at)s::timestamptz IS NULL OR (at, id) < (%(before_at)s, %(before_id)s::bigint))
ORDER BY at DESC, id DESC
LIMIT %(rows)s
