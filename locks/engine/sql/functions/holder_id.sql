-- A stable pseudonym of the holder: the same token (and session) always gives the same one.
CREATE FUNCTION octo_holder_id(public_id text, session_id uuid) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT 'h_' || left(encode(sha256(convert_to(public_id || coalesce(':' || session_id, ''), 'UTF8')), 'hex'), 20)
$$;
