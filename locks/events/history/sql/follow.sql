-- Follow: the events after a position, in the order in which readers may count on them.
--
-- $1 and $2 the position: transaction and event · $3 the most events
--
-- Ids and times are given out before the commit, so an event with a lower one can appear after one with a higher.
-- Transactions below the oldest one still under way have all ended: what they wrote is here and nothing will join it.
-- So a reader stops short of that one, and whatever commits late comes after its position, never before. `commit_position` is never below
-- the transaction that wrote the event, and for one name it only rises (octo_event_position).
SELECT
    event.commit_position::text::bigint AS commit_position, event.id, event.at, event.kind, event.space_id, event.lock_name,
    event.fencing_token, event.owner, event.metadata
FROM octo_event AS event
WHERE event.commit_position >= $1::bigint::text::xid8
  AND (event.commit_position > $1::bigint::text::xid8 OR event.id > $2::bigint)
  AND event.commit_position < pg_snapshot_xmin(pg_current_snapshot())
ORDER BY event.commit_position, event.id
LIMIT $3::int
