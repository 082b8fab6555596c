-- Where a name stands in a folder of the tree of names: the node that it is or that it lies below, the lock of that node, and
-- the last possible name of the node. A node is a folder if it goes on behind a slash or, at the top (folder ''), is a namespace
-- with its colon.
CREATE FUNCTION octo_name_node(folder text, name text)
RETURNS TABLE (node text, is_folder boolean, own_name text, node_end text)
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT
        left(name, cut) COLLATE "C",
        ends_in <> '',
        CASE WHEN ends_in = '/' THEN left(name, cut - 1) ELSE left(name, cut) END COLLATE "C",
        (left(name, cut) || CASE WHEN ends_in <> '' THEN chr(1114111) ELSE '' END) COLLATE "C"
    FROM (
        SELECT
            CASE ends_in WHEN '' THEN length(name)
                 ELSE length(folder) + strpos(substr(name, length(folder) + 1), ends_in) END AS cut,
            ends_in
        FROM (
            SELECT CASE WHEN folder = '' AND name ~ '^[a-z][a-z0-9_-]{0,30}:' THEN ':'
                        WHEN strpos(substr(name, length(folder) + 1), '/') > 0 THEN '/'
                        ELSE '' END AS ends_in
        ) AS separator
    ) AS place
$$;
