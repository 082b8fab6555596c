-- The webhooks of a space, oldest first, or one of them.
SELECT
    webhook.id, webhook.public_id, webhook.url, webhook.kinds, webhook.prefix, webhook.lock_pattern, webhook.created_at,
    webhook.created_by,
    webhook.consecutive_failures, webhook.last_claimed_at, webhook.backoff_until, webhook.paused_at, webhook.previous_secret_until,
    -- The page says "more than 1,000", so counting stops there.
    (SELECT count(*) FROM (SELECT FROM octo_delivery WHERE webhook_id = webhook.id AND status = 'pending' LIMIT 1001)
        AS pending_delivery) AS pending,
    (SELECT count(*) FROM (SELECT FROM octo_delivery WHERE webhook_id = webhook.id AND status = 'dead' LIMIT 1001)
        AS failed_delivery) AS failed,
    statement_timestamp() AS now
FROM octo_webhook AS webhook
WHERE webhook.space_id = %(space_id)s AND (%(public_id)s::text IS NULL OR webhook.public_id = %(public_id)s)
ORDER BY webhook.created_at, webhook.id
