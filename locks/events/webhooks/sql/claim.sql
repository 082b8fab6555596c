-- Claim: takes one delivery in hand that is due, of the webhook that has waited longest. No row if there is none.
--
-- $1 for how many seconds · $2 the most in hand for one webhook · $3 attempts for which later events of a name wait
--
-- A webhook that fails gets one attempt at a time, and rests between them, so receivers that hang cannot keep all the
-- hands busy. A claim that is not settled runs out: whoever made it has died.
WITH turn AS MATERIALIZED (
    SELECT webhook.id, due.id AS delivery_id
    FROM octo_webhook AS webhook
    JOIN octo_space ON octo_space.id = webhook.space_id AND octo_space.archived_at IS NULL
    CROSS JOIN LATERAL (
        SELECT delivery.id
        FROM octo_delivery AS delivery
        WHERE delivery.webhook_id = webhook.id
          AND delivery.status = 'pending'
          -- A test tells whether it is time to go on.
          AND (webhook.paused_at IS NULL OR delivery.kind = 'test')
          AND delivery.next_attempt_at <= clock_timestamp()
          AND (delivery.claimed_until IS NULL OR delivery.claimed_until <= clock_timestamp())
          -- In the order of the history for each name, until one has failed too often to wait for.
          AND NOT EXISTS (
              SELECT FROM octo_delivery AS earlier
              WHERE earlier.webhook_id = delivery.webhook_id
                AND earlier.lock_name = delivery.lock_name
                AND earlier.status = 'pending'
                AND earlier.id < delivery.id
                AND earlier.attempts < $3::int
          )
        ORDER BY delivery.next_attempt_at, delivery.id
        LIMIT 1
    ) AS due
    WHERE (webhook.backoff_until IS NULL OR webhook.backoff_until <= clock_timestamp())
      AND (
          SELECT count(*) FROM octo_delivery AS taken
          WHERE taken.webhook_id = webhook.id AND taken.status = 'pending' AND taken.claimed_until > clock_timestamp()
      ) < CASE WHEN webhook.consecutive_failures > 0 THEN 1 ELSE $2::int END
    ORDER BY webhook.last_claimed_at NULLS FIRST, webhook.id
    LIMIT 1
    FOR NO KEY UPDATE OF webhook SKIP LOCKED
),
served AS (
    UPDATE octo_webhook SET last_claimed_at = clock_timestamp() FROM turn WHERE octo_webhook.id = turn.id
)
UPDATE octo_delivery SET
    attempts = attempts + 1, claimed_until = clock_timestamp() + $1::float8 * interval '1 second'
FROM turn
WHERE octo_delivery.id = turn.delivery_id
  AND octo_delivery.status = 'pending'
  AND (octo_delivery.claimed_until IS NULL OR octo_delivery.claimed_until <= clock_timestamp())
RETURNING octo_delivery.id, octo_delivery.attempts
