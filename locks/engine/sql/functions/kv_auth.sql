-- Who reads or writes the store of a layer, and why it is refused, if it is. Always one row. Without a layer it is the
-- actor's own; the lead of a layer may name a child that has `read_down`, for reading.
CREATE FUNCTION octo_kv_auth(digest text, scope text, layer uuid) RETURNS TABLE (
    space_id bigint, requests_per_second int, actor_id bigint, actor_name text, is_lead boolean, layer_id uuid,
    refusal text
) LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT
        auth.space_id, auth.requests_per_second, actor.id, actor.name, actor.role = 'lead',
        coalesce(octo_kv_auth.layer, actor.layer_id),
        coalesce(auth.refusal, CASE
            WHEN actor.id IS NULL THEN 'no_actor'
            WHEN octo_session_ends_at(auth.actor_session_id) <= clock_timestamp() THEN 'session_over'
            WHEN coalesce(octo_kv_auth.layer, actor.layer_id) <> actor.layer_id AND NOT EXISTS (
                SELECT FROM octo_layer AS child
                WHERE child.id = octo_kv_auth.layer AND child.parent_id = actor.layer_id AND child.read_down
                  AND actor.role = 'lead' AND octo_kv_auth.scope = 'locks:read'
            ) THEN 'no_layer'
        END)
    FROM octo_auth_v2(octo_kv_auth.digest, octo_kv_auth.scope, NULL) AS auth
    LEFT JOIN LATERAL (
        SELECT id, name, role, layer_id FROM octo_run_actor WHERE octo_run_actor.token_id = auth.token_id LIMIT 1
    ) AS actor ON true
$$;
