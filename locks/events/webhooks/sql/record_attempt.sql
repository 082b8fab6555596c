-- Records the result of an attempt for the delivery, its webhook and the log, in one commit.
--
-- $1 delivery · $2 number of the attempt · $3 whether it succeeded · $4 status or null · $5 error or null
-- $6 duration in milliseconds · $7 seconds until the next attempt · $8 the longest backoff of a webhook, in seconds
-- $9 from how many milliseconds on a receiver that succeeds counts as failing, though without a backoff
--
-- If the claim has expired and another worker has made an attempt since, only the log and the webhook are written, unless
-- this attempt succeeded: then the delivery is delivered, whichever attempt it was.
WITH updated_delivery AS (
    UPDATE octo_delivery SET
        status = CASE
            WHEN $3::boolean THEN 'delivered'
            WHEN deadline_at <= clock_timestamp() THEN 'dead'
            ELSE 'pending'
        END,
        finished_at = CASE WHEN $3::boolean OR deadline_at <= clock_timestamp() THEN clock_timestamp() END,
        next_attempt_at = clock_timestamp() + $7::float8 * interval '1 second',
        claimed_until = NULL
    WHERE id = $1::bigint AND status = 'pending' AND (attempts = $2::int OR $3::boolean)
),
logged AS (
    INSERT INTO octo_delivery_attempt (delivery_id, number, duration_ms, status, error)
    SELECT id, $2::int, $6::int, $4::int, $5::text FROM octo_delivery WHERE id = $1::bigint
)
UPDATE octo_webhook SET
    consecutive_failures = CASE
        WHEN NOT $3::boolean THEN consecutive_failures + 1
        WHEN $6::int >= $9::int THEN 1
        ELSE 0
    END,
    backoff_until = CASE
        WHEN NOT $3::boolean
            THEN clock_timestamp() + least(2 ^ least(consecutive_failures, 20), $8::float8) * interval '1 second'
    END
FROM octo_delivery
WHERE octo_delivery.id = $1::bigint AND octo_webhook.id = octo_delivery.webhook_id
  AND NOT ($3::boolean AND consecutive_failures = 0 AND $6::int < $9::int)
