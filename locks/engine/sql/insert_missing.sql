-- Seed: free rows for names that have none, so that claim-next can pass over the ones that others are taking.
--
-- $1 is one requests.ClaimNext as JSON.
INSERT INTO octo_lock (space_id, name, fencing_token, lock_delay_seconds)
SELECT live.space_id, name, 0, 0
FROM json_to_record($1::json) AS request (digest text, names json)
CROSS JOIN LATERAL (
    SELECT * FROM octo_live_token WHERE octo_live_token.digest = decode(request.digest, 'hex') LIMIT 1
) AS live
CROSS JOIN json_array_elements_text(request.names) AS name
WHERE 'locks:write' = ANY (live.scopes) AND octo_name_matches_prefixes(name, live.prefixes)
ORDER BY name COLLATE "C"
ON CONFLICT (space_id, name) DO NOTHING
