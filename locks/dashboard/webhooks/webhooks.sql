-- The webhooks of a space, oldest first, or one of them. rules: those of alert rules or the others (null for both).
SELECT
    webhook.id, webhook.public_id, webhook.url, webhook.kinds, webhook.prefix, webhook.lock_pattern, webhook.created_at,
    webhook.created_by,
    webhook.consecutive_failures, webhook.last_claimed_at, webhook.backoff_until, webhook.paused_at, webhook.previous_secret_until,
    rule.name AS rule_name, rule.transport,
    -- The page says "more than 1,000", so counting stops there.
    (SELECT count(*) FROM (SELECT FROM octo_delivery WHERE webhook_id = webhook.id AND status = 'pending' LIMIT 1001)
        AS pending_delivery) AS pending,
    (SELECT count(*) FROM (SELECT FROM octo_delivery WHERE webhook_id = webhook.id AND status = 'dead' LIMIT 1001)
        AS failed_delivery) AS failed,
    statement_timestamp() AS now
FROM octo_webhook AS webhook
LEFT JOIN octo_alert_rule AS rule ON rule.webhook_id = webhook.id
WHERE webhook.space_id = %(space_id)s AND (%(public_id)s::text IS NULL OR webhook.public_id = %(public_id)s)
  AND (%(rules)s::boolean IS NULL OR (rule.webhook_id IS NOT NULL) = %(rules)s)
ORDER BY webhook.created_at, webhook.id
