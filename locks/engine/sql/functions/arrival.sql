-- The `queue_seq` of a request that arrives at this moment; see database_clock.py.
CREATE FUNCTION octo_arrival(moment timestamptz) RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT (extract(epoch FROM octo_arrival.moment) * 1000000)::bigint
$$;
