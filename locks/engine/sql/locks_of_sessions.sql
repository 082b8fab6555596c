-- The locks that are tied to sessions. $1 is an array of session ids, $2 the most to name.
SELECT space_id, name
FROM octo_lock
WHERE session_id = ANY ($1::uuid[]) AND tied_to IS NOT NULL
ORDER BY space_id, name
LIMIT $2::int
