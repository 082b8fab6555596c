-- A stable pseudonym of the holder: the same token (and session), or the same person, always gives the same one. A UUID of
-- version 8, made of a digest: OctoStore's clients expect a UUID.
CREATE FUNCTION octo_holder_id(public_id text, session_id uuid) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT overlay(overlay(
        left(encode(sha256(convert_to(public_id || coalesce(':' || session_id, ''), 'UTF8')), 'hex'), 32)
        PLACING '8' FROM 13) PLACING 'a' FROM 17)::uuid::text
$$;

-- Of a person who has reserved a lock. The lease has no token, and that tells it from all others.
CREATE FUNCTION octo_person_holder_id(person bigint) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT octo_holder_id('user:' || person, NULL)
$$;
