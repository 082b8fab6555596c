-- How many locks that are held now a token with these prefixes could touch, counted no further than `most`. Changes nothing.
SELECT count(*) AS number
FROM (
    SELECT FROM octo_lock_state
    WHERE space_id = %(space_id)s AND lease_id IS NOT NULL AND effective_expires_at > statement_timestamp()
      AND octo_name_matches_prefixes(name, %(prefixes)s::text[])
    LIMIT %(most)s
) AS matched
