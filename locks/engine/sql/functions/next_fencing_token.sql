-- Strictly rising per name, also after its row was purged, a backup restored or a lagging replica promoted: the clock
-- leads, and the row's last token counts when the clock is behind it.
CREATE FUNCTION octo_next_fencing_token(previous bigint, now timestamptz) RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT greatest(previous + 1, (extract(epoch FROM now) * 1000)::bigint)
$$;
