-- The last events of each of some locks, newest first. Changes nothing.
SELECT event.id, event.at, event.kind, event.lock_name, event.owner, event.actor_kind, event.actor_name, event.reason,
       event.fencing_token, event.held_ms, event.recorded_late_ms, statement_timestamp() AS now
FROM unnest(%(names)s::text[]) AS lock (name)
CROSS JOIN LATERAL (
    SELECT * FROM octo_event
    WHERE octo_event.space_id = %(space_id)s AND octo_event.lock_name = lock.name
    ORDER BY octo_event.at DESC, octo_event.id DESC
    LIMIT %(each)s
) AS event
ORDER BY event.at DESC, event.id DESC
