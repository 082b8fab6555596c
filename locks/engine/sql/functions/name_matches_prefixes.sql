-- Whether a token with these prefixes may use this name. No subquery in it, so the planner inlines it.
CREATE FUNCTION octo_name_matches_prefixes(name text, prefixes text[]) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT cardinality(prefixes) = 0 OR name ^@ ANY (prefixes)
$$;
