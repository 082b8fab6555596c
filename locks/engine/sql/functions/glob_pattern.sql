-- The LIKE pattern for names that match a glob: `*` is any text, also with slashes, and `?` one character.
CREATE FUNCTION octo_glob_pattern(glob text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT translate(regexp_replace(glob, '([\\%_])', '\\\1', 'g'), '*?', '%_')
$$;
