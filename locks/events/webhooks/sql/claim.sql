-- Claims one due delivery: of the space with the fewest attempts under way, and there of the webhook that has waited
-- longest. No row if none is due.
--
-- $1 for how many seconds · $2 how many claims of one webhook at most · $3 until an event has failed so often, later events
-- of its name wait for it · $4 how many claims of one space at most
--
-- A webhook that fails gets one attempt at a time, with a backoff between attempts, and one that is slow one at a time, so
-- receivers that hang cannot occupy all threads. A claim whose attempt is not recorded expires: its worker has died.
WITH claimed AS MATERIALIZED (
    SELECT delivery.webhook_id, webhook.space_id
    FROM octo_delivery AS delivery
    JOIN octo_webhook AS webhook ON webhook.id = delivery.webhook_id
    WHERE delivery.status = 'pending' AND delivery.claimed_until > clock_timestamp()
),
next AS MATERIALIZED (
    SELECT webhook.id, due.id AS delivery_id
    FROM octo_webhook AS webhook
    JOIN octo_space ON octo_space.id = webhook.space_id AND octo_space.archived_at IS NULL
    CROSS JOIN LATERAL (
        SELECT delivery.id
        FROM octo_delivery AS delivery
        WHERE delivery.webhook_id = webhook.id
          AND delivery.status = 'pending'
          -- Tests are sent while the webhook is paused: they show whether it can be resumed.
          AND (webhook.paused_at IS NULL OR delivery.kind = 'test')
          AND delivery.next_attempt_at <= clock_timestamp()
          AND (delivery.claimed_until IS NULL OR delivery.claimed_until <= clock_timestamp())
          -- Each name's events in the order of the history, and after a reset, which has the name '', unless an earlier one
          -- has failed too often.
          AND (
              delivery.kind = 'test'
              OR NOT EXISTS (
                  SELECT FROM octo_delivery AS earlier
                  WHERE earlier.webhook_id = delivery.webhook_id
                    AND earlier.lock_name IN (delivery.lock_name, '')
                    AND earlier.status = 'pending'
                    AND earlier.id < delivery.id
                    AND earlier.attempts < $3::int
              )
          )
        ORDER BY delivery.next_attempt_at, delivery.id
        LIMIT 1
    ) AS due
    WHERE (webhook.backoff_until IS NULL OR webhook.backoff_until <= clock_timestamp())
      AND (SELECT count(*) FROM claimed WHERE claimed.webhook_id = webhook.id)
          < CASE WHEN webhook.consecutive_failures > 0 THEN 1 ELSE $2::int END
      AND (SELECT count(*) FROM claimed WHERE claimed.space_id = webhook.space_id) < $4::int
    ORDER BY
        (SELECT count(*) FROM claimed WHERE claimed.space_id = webhook.space_id),
        webhook.last_claimed_at NULLS FIRST, webhook.id
    LIMIT 1
    FOR NO KEY UPDATE OF webhook SKIP LOCKED
),
updated_webhook AS (
    UPDATE octo_webhook SET last_claimed_at = clock_timestamp() FROM next WHERE octo_webhook.id = next.id
)
UPDATE octo_delivery SET
    attempts = attempts + 1, claimed_until = clock_timestamp() + $1::float8 * interval '1 second'
FROM next
WHERE octo_delivery.id = next.delivery_id
  AND octo_delivery.status = 'pending'
  AND (octo_delivery.claimed_until IS NULL OR octo_delivery.claimed_until <= clock_timestamp())
RETURNING octo_delivery.id, octo_delivery.attempts
