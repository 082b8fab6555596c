-- Which viewers may keep their stream: still signed in with the same password, still in the team, the space not archived. The
-- space of the overview is null: it belongs to every user.
-- Changes nothing.
--
-- $1 digests of session keys, $2 user ids, $3 hex SHA-256 of their password hashes, $4 space ids. Answers positions from 1.
SELECT viewer.position
FROM unnest($1::text[], $2::bigint[], $3::text[], $4::bigint[]) WITH ORDINALITY
     AS viewer (session_key, user_id, password, space_id, position)
JOIN octo_user ON octo_user.id = viewer.user_id AND octo_user.is_active
    AND encode(sha256(convert_to(octo_user.password, 'UTF8')), 'hex') = viewer.password
LEFT JOIN octo_space ON octo_space.id = viewer.space_id AND octo_space.archived_at IS NULL
JOIN octo_browser_session ON octo_browser_session.session_key = viewer.session_key
    AND octo_browser_session.expire_date > statement_timestamp()
WHERE viewer.space_id IS NULL OR octo_space.id IS NOT NULL AND (octo_user.is_superuser OR EXISTS (
    SELECT FROM octo_membership
    WHERE octo_membership.user_id = octo_user.id AND octo_membership.team_id = octo_space.team_id
))
