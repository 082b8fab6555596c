-- Which of these tokens may still read locks.
SELECT token_id FROM octo_live_token_v2 WHERE token_id = ANY ($1::bigint[]) AND 'locks:read' = ANY (scopes)
