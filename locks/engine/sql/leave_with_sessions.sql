-- The places in line of sessions that are over. $1 is an array of session ids.
SELECT id FROM octo_waiter WHERE session_id = ANY ($1::uuid[])
