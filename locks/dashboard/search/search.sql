-- What begins with a text, in some spaces: locks by name, owners that hold a lock, tokens by name or public id; and the events
-- of the request with that id. Changes nothing.
--
-- space_ids in the order of the results; text, and `beyond`: a text after all that begin with it, byte by byte; each and rows:
-- the maximum of a kind in one space and in all; scanned: so many held locks are read for their owners, which have no index.
-- The id of a request is compared as a whole; null if the text cannot be one.
WITH space AS (
    SELECT id, position FROM unnest(%(space_ids)s::bigint[]) WITH ORDINALITY AS space (id, position)
),
owner AS (
    SELECT DISTINCT space_id, owner
    FROM (
        SELECT space_id, owner
        FROM (
            -- By space, so that the locks of other spaces are not read.
            SELECT space.id AS space_id, lock.owner
            FROM space
            CROSS JOIN LATERAL (
                SELECT owner FROM octo_lock WHERE octo_lock.space_id = space.id AND lease_id IS NOT NULL LIMIT %(scanned)s
            ) AS lock
            LIMIT %(scanned)s
        ) AS held
        WHERE starts_with(owner, %(text)s)
        LIMIT 500
    ) AS matching
),
-- The spaces are compared afterwards, so that the index of request ids is used and not that of spaces.
request AS MATERIALIZED (
    SELECT DISTINCT space_id, request_id FROM octo_event WHERE request_id = %(request_id)s
)
(
    SELECT 'lock' AS kind, space.id AS space_id, lock.name AS text, lock.owner AS note
    FROM space
    CROSS JOIN LATERAL (
        SELECT name, owner FROM octo_lock
        WHERE octo_lock.space_id = space.id AND name >= %(text)s AND name < %(beyond)s
        ORDER BY name
        LIMIT %(each)s
    ) AS lock
    ORDER BY space.position, lock.name
    LIMIT %(rows)s
)
UNION ALL
(
    SELECT 'owner', owner.space_id, owner.owner, NULL
    FROM owner
    JOIN space ON space.id = owner.space_id
    ORDER BY space.position, owner.owner
    LIMIT %(rows)s
)
UNION ALL
(
    SELECT CASE WHEN token.is_current THEN 'token' ELSE 'old_token' END, space.id, token.public_id, token.name
    FROM space
    CROSS JOIN LATERAL (
        (
            SELECT public_id, name, revoked_at IS NULL AND rotated_at IS NULL AS is_current FROM octo_token
            WHERE octo_token.space_id = space.id AND actor_session_id IS NULL AND name ~>=~ %(text)s AND name ~<~ %(beyond)s
            ORDER BY name USING ~<~
            LIMIT %(each)s
        )
        UNION
        (
            SELECT public_id, name, revoked_at IS NULL AND rotated_at IS NULL FROM octo_token
            WHERE octo_token.space_id = space.id AND actor_session_id IS NULL
              AND public_id ~>=~ %(text)s AND public_id ~<~ %(beyond)s
            ORDER BY public_id USING ~<~
            LIMIT %(each)s
        )
    ) AS token
    ORDER BY space.position, token.name
    LIMIT %(rows)s
)
UNION ALL
(
    SELECT 'request', space.id, request.request_id, NULL
    FROM request
    JOIN space ON space.id = request.space_id
    ORDER BY space.position
    LIMIT %(rows)s
)
