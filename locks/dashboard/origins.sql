-- Who holds each of some locks, and from where: the token, the session, and the address that acquired it. Changes nothing.
--
-- The event of the acquire is found by its time, which is that of the lease.
SELECT
    lock.id AS lock_id, lock.holder_id, token.name AS token_name, token.public_id AS token_public_id,
    acquired.id AS event_id, host(acquired.address) AS address, client.user_agent,
    session.created_at AS session_opened_at, session.last_keepalive_at
FROM octo_lock AS lock
JOIN octo_token AS token ON token.id = lock.token_id
LEFT JOIN LATERAL (
    SELECT event.id, event.address FROM octo_event AS event
    WHERE event.space_id = lock.space_id AND event.lock_name = lock.name AND event.at >= lock.acquired_at
      AND event.kind = 'acquired' AND event.fencing_token = lock.fencing_token
    ORDER BY event.at, event.id
    LIMIT 1
) AS acquired ON true
LEFT JOIN octo_token_client AS client ON client.token_id = lock.token_id AND client.address = acquired.address
LEFT JOIN octo_session AS session ON session.id = lock.session_id
WHERE lock.space_id = %(space_id)s AND lock.id = ANY (%(lock_ids)s::bigint[])
