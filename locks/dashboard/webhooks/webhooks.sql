-- The webhooks of a space, the oldest first, or one of them. Changes nothing.
SELECT
    webhook.id, webhook.public_id, webhook.url, webhook.kinds, webhook.prefix, webhook.created_at, webhook.created_by,
    webhook.consecutive_failures, webhook.last_claimed_at, webhook.backoff_until, webhook.paused_at, webhook.previous_secret_until,
    -- No more than is said: "more than a thousand" is enough to know.
    (SELECT count(*) FROM (SELECT FROM octo_delivery WHERE webhook_id = webhook.id AND status = 'pending' LIMIT 1001)
        AS waiting) AS pending,
    (SELECT count(*) FROM (SELECT FROM octo_delivery WHERE webhook_id = webhook.id AND status = 'dead' LIMIT 1001)
        AS dead) AS dead,
    statement_timestamp() AS now
FROM octo_webhook AS webhook
WHERE webhook.space_id = %(space_id)s AND (%(public_id)s::text IS NULL OR webhook.public_id = %(public_id)s)
ORDER BY webhook.created_at, webhook.id
