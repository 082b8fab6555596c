CREATE FUNCTION octo_interval_ms(duration interval) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (extract(epoch FROM duration) * 1000)::bigint
$$;
