-- The runs of a space, the latest first.
SELECT
    run.id, run.name, run.metadata, run.state, run.ttl_seconds, run.max_depth, run.dump, run.created_at, run.draining_at,
    run.finished_at, run.finish_reason,
    lead.name AS lead,
    greatest(lead.last_keepalive_at, lead.last_used_at, run.created_at) AS last_sign_of_life_at,
    (SELECT count(*) FROM octo_layer AS layer WHERE layer.run_id = run.id) AS layers,
    (
        SELECT count(*) FROM octo_run_actor AS actor
        JOIN octo_session AS session ON session.id = actor.session_id
        WHERE actor.run_id = run.id AND actor.ended_at IS NULL
          AND least(session.ended_at, session.expires_at) > statement_timestamp()
    ) AS actors,
    (
        SELECT count(*) FROM octo_run_actor AS actor
        JOIN octo_lock AS lock ON lock.session_id = actor.session_id
        WHERE actor.run_id = run.id AND actor.ended_at IS NULL
          AND octo_effective_expiry(lock.expires_at, lock.bound_session_id) > statement_timestamp()
    ) AS leases,
    (
        SELECT count(*) FROM octo_run_actor AS actor
        JOIN octo_waiter AS waiter ON waiter.session_id = actor.session_id
        WHERE actor.run_id = run.id AND actor.ended_at IS NULL AND waiter.handed_lease_id IS NULL
    ) AS waiting
FROM octo_run AS run
LEFT JOIN LATERAL (
    SELECT actor.name, session.last_keepalive_at, token.last_used_at
    FROM octo_run_actor AS actor
    JOIN octo_layer AS layer ON layer.id = actor.layer_id AND layer.parent_id IS NULL
    JOIN octo_token AS token ON token.id = actor.token_id
    LEFT JOIN octo_session AS session ON session.id = actor.session_id
    WHERE actor.run_id = run.id AND actor.role = 'lead'
    ORDER BY actor.id DESC
    LIMIT 1
) AS lead ON true
WHERE run.space_id = %(space_id)s
  AND (%(run_id)s::uuid IS NULL OR run.id = %(run_id)s::uuid)
  AND (%(state)s = '' OR run.state = %(state)s OR (%(state)s = 'unfinished' AND run.finished_at IS NULL))
  AND (%(before_at)s::timestamptz IS NULL
       OR (run.created_at, run.id) < (%(before_at)s::timestamptz, %(before_id)s::uuid))
ORDER BY run.created_at DESC, run.id DESC
LIMIT %(limit)s
