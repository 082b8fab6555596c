-- What a watcher compares from one look to the next, for each space. Changes nothing.
--
-- $1 space ids, $2 the last event seen of each. Every change of hands changes the sum of the fencing tokens held, in
-- whatever order transactions commit; a heartbeat moves the latest renewal.
SELECT
    watched.space_id,
    held.number, held.tokens, held.renewed_at,
    waiting.number, waiting.latest,
    news.latest,
    news.number
FROM unnest($1::bigint[], $2::bigint[]) AS watched (space_id, seen)
CROSS JOIN LATERAL (
    SELECT count(*) AS number, sum(fencing_token)::text AS tokens, max(renewed_at) AS renewed_at
    FROM octo_lock WHERE octo_lock.space_id = watched.space_id AND lease_id IS NOT NULL
) AS held
CROSS JOIN LATERAL (
    SELECT count(*) AS number, max(id) AS latest FROM octo_waiter WHERE octo_waiter.space_id = watched.space_id
) AS waiting
CROSS JOIN LATERAL (
    SELECT max(id) AS latest, count(*) FILTER (WHERE id > watched.seen) AS number
    FROM (
        SELECT id FROM octo_event
        WHERE octo_event.space_id = watched.space_id AND octo_event.at > statement_timestamp() - interval '1 hour'
        ORDER BY octo_event.at DESC, octo_event.id DESC
        LIMIT 100
    ) AS latest
) AS news
