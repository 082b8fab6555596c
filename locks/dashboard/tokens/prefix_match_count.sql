-- How many of the locks held now a token with these prefixes may use, counted up to `limit`.
SELECT count(*) AS count
FROM (
    SELECT FROM octo_lock_state_v2
    WHERE space_id = %(space_id)s AND lease_id IS NOT NULL AND effective_expires_at > statement_timestamp()
      AND octo_name_matches_prefixes(name, %(prefixes)s::text[])
    LIMIT %(limit)s
) AS matching_lock
