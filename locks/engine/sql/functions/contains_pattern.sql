-- The LIKE pattern for texts that contain this one.
CREATE FUNCTION octo_contains_pattern(search text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT '%' || regexp_replace(search, '([\\%_])', '\\\1', 'g') || '%'
$$;
