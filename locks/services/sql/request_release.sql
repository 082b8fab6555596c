-- Records that a person asks for the release of a lock, unless that person has asked for this lock a short time ago. Answers a row
-- if it was recorded. The one statement also decides between two requests at once: the second waits for the row of the first.
INSERT INTO octo_release_request AS request (space_id, lock_name, fencing_token, person_id, person_name, reason, requested_at)
VALUES (%(space_id)s, %(lock_name)s, %(fencing_token)s, %(person_id)s, %(person_name)s, %(reason)s, clock_timestamp())
ON CONFLICT (space_id, lock_name, person_id) DO UPDATE SET
    fencing_token = excluded.fencing_token, person_name = excluded.person_name, reason = excluded.reason,
    requested_at = excluded.requested_at
    WHERE request.requested_at < clock_timestamp() - %(minutes)s * interval '1 minute'
RETURNING request.id
