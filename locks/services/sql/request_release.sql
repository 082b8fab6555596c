-- Records that a person asks for the release of a lock, unless that person has asked for this lock a short time ago, or has
-- max_open open requests for other locks of the space. Answers which. The one statement also decides between two requests for a
-- lock at once: the second waits for the row of the first. Requests for several locks at once may exceed max_open by a few.
--
-- A request is open while the lease that it concerns has not ended.
WITH other AS MATERIALIZED (
    SELECT count(*) >= %(max_open)s AS are_too_many
    FROM octo_release_request AS request
    JOIN octo_lock AS lock ON lock.space_id = request.space_id AND lock.name = request.lock_name
        AND lock.fencing_token = request.fencing_token AND lock.lease_id IS NOT NULL
    WHERE request.person_id = %(person_id)s AND request.space_id = %(space_id)s AND request.lock_name <> %(lock_name)s
),
recorded AS (
    INSERT INTO octo_release_request AS request
        (space_id, lock_name, fencing_token, person_id, person_name, reason, requested_at)
    SELECT %(space_id)s, %(lock_name)s, %(fencing_token)s, %(person_id)s, %(person_name)s, %(reason)s, clock_timestamp()
    FROM other
    WHERE NOT other.are_too_many
    ON CONFLICT (space_id, lock_name, person_id) DO UPDATE SET
        fencing_token = excluded.fencing_token, person_name = excluded.person_name, reason = excluded.reason,
        requested_at = excluded.requested_at
        WHERE request.requested_at < clock_timestamp() - %(minutes)s * interval '1 minute'
    RETURNING request.id
)
SELECT CASE
    WHEN EXISTS (SELECT FROM recorded) THEN 'recorded'
    WHEN other.are_too_many THEN 'too_many'
    ELSE 'too_soon'
END AS outcome
FROM other
