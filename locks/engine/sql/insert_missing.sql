-- Inserts free rows for names that have none, so that claim-next can skip those that others are acquiring.
--
-- $1 is one requests.ClaimNext as JSON.
INSERT INTO octo_lock (space_id, name, fencing_token, lock_delay_seconds)
SELECT auth.space_id, name, 0, 0
FROM json_to_record($1::json) AS request (digest text, names json)
CROSS JOIN json_array_elements_text(request.names) AS name
CROSS JOIN LATERAL octo_auth_v2(request.digest, 'locks:write', name) AS auth
WHERE auth.refusal IS NULL AND NOT octo_names_are_full(auth.space_id)
ORDER BY name COLLATE "C"
ON CONFLICT (space_id, name) DO NOTHING
