-- Levels of the tree of names: the first nodes of each of some folders, free names included. Changes nothing.
--
-- space_id; folders, lows and limits in step: a folder ('' for the top), where in it to begin, and how many names to look at;
-- prefix: names below the first folder begin with it; max_counted: a node is counted no further.
--
-- A node is what follows the folder up to the next slash, at the top also a namespace with its colon. A loose index scan finds
-- them: from a node the scan jumps behind all names below it, so the work depends on the nodes shown, not on the names that
-- exist. No name has the last character of Unicode, so it follows everything that begins with what precedes it.
--
-- A lock that is a folder too (`path:src` and `path:src/auth.rs`) is one node, where its own name stands. Where the
-- folder follows, it `is_repeated`.
WITH RECURSIVE level AS (
    SELECT
        ordinality AS level, folder, low COLLATE "C" AS low,
        (CASE WHEN ordinality = 1 THEN %(prefix)s ELSE folder END || chr(1114111)) COLLATE "C" AS high, most
    FROM unnest(%(folders)s::text[], %(lows)s::text[], %(limits)s::int[]) WITH ORDINALITY AS level (folder, low, most)
),
step AS (
    SELECT level.level, level.folder, level.high, level.most, 1 AS nth, found.name, node.*
    FROM level
    CROSS JOIN LATERAL (
        SELECT lock.name FROM octo_lock AS lock
        WHERE lock.space_id = %(space_id)s AND lock.name >= level.low AND lock.name < level.high
        ORDER BY lock.name
        LIMIT 1
    ) AS found
    CROSS JOIN LATERAL octo_name_node(level.folder, found.name) AS node
    UNION ALL
    SELECT step.level, step.folder, step.high, step.most, step.nth + 1, found.name, node.*
    FROM step
    CROSS JOIN LATERAL (
        SELECT lock.name FROM octo_lock AS lock
        WHERE lock.space_id = %(space_id)s AND lock.name > step.node_end AND lock.name < step.high
        ORDER BY lock.name
        LIMIT 1
    ) AS found
    CROSS JOIN LATERAL octo_name_node(step.folder, found.name) AS node
    WHERE step.nth < step.most
),
node AS MATERIALIZED (
    SELECT
        step.level, step.nth, step.name, step.own_name, below.folder, below.folder || chr(1114111) AS folder_end,
        own.id AS lock_id,
        step.is_folder AND own.id IS NOT NULL AND step.node <> step.own_name AS is_repeated
    FROM step
    LEFT JOIN octo_lock AS own ON own.space_id = %(space_id)s AND own.name = step.own_name
    -- The folder of a lock's own name exists if any name begins with it.
    CROSS JOIN LATERAL (
        SELECT CASE WHEN step.is_folder THEN step.node ELSE (
            SELECT step.node || '/' FROM octo_lock AS lock
            WHERE lock.space_id = %(space_id)s AND lock.name > (step.node || '/') COLLATE "C"
              AND lock.name < (step.node || '/' || chr(1114111)) COLLATE "C"
            LIMIT 1
        ) END AS folder
    ) AS below
),
stuck AS MATERIALIZED (
    SELECT lock.name
    FROM octo_known_stuck_lock_v2 AS stuck
    JOIN octo_lock AS lock ON lock.id = stuck.lock_id AND lock.fencing_token = stuck.fencing_token
        AND lock.lease_id IS NOT NULL
    WHERE stuck.space_id = %(space_id)s
)
SELECT
    node.level, node.nth, node.name AS first_name, node.own_name AS name, node.folder, node.is_repeated, own.id, own.owner,
    own.effective_expires_at AS expires_at, octo_severity_name(own.severity) AS state,
    (SELECT count(*) FROM octo_queued_waiter AS waiter
     WHERE waiter.space_id = %(space_id)s AND waiter.name = node.own_name) AS own_waiters,
    (SELECT count(*) FROM stuck WHERE stuck.name = node.own_name) AS own_stuck,
    coalesce(below.names, 0) AS names, coalesce(below.held, 0) AS held, coalesce(below.waiters, 0) AS waiters,
    coalesce(below.stuck, 0) AS stuck,
    statement_timestamp() AS now
FROM node
LEFT JOIN octo_lock_state_v2 AS own ON own.id = node.lock_id
LEFT JOIN LATERAL (
    SELECT
        (SELECT count(*) FROM (
            SELECT FROM octo_lock AS lock
            WHERE lock.space_id = %(space_id)s AND lock.name > node.folder COLLATE "C"
              AND lock.name < node.folder_end COLLATE "C"
            LIMIT %(max_counted)s + 1) AS counted) AS names,
        (SELECT count(*) FROM (
            SELECT FROM octo_lock AS lock
            WHERE lock.space_id = %(space_id)s AND lock.lease_id IS NOT NULL AND lock.name > node.folder COLLATE "C"
              AND lock.name < node.folder_end COLLATE "C"
              AND octo_effective_expiry(lock.expires_at, lock.bound_session_id) > statement_timestamp()
            LIMIT %(max_counted)s + 1) AS counted) AS held,
        (SELECT count(*) FROM (
            SELECT FROM octo_queued_waiter AS waiter
            WHERE waiter.space_id = %(space_id)s AND waiter.name > node.folder COLLATE "C"
              AND waiter.name < node.folder_end COLLATE "C"
            LIMIT %(max_counted)s + 1) AS counted) AS waiters,
        (SELECT count(*) FROM stuck
         WHERE stuck.name > node.folder COLLATE "C" AND stuck.name < node.folder_end COLLATE "C") AS stuck
) AS below ON node.folder IS NOT NULL AND NOT node.is_repeated
ORDER BY node.level, node.nth
