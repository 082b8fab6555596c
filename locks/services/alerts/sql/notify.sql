-- Notes for each rule what it has to send now and has not sent, and returns it with the alert.
--
-- quiet: rules in their quiet hours; limit: how many notices at once.
--
-- An alert that is open is due when it has lasted as long as the rule wants. Its end is due if the rule has sent its
-- beginning. In quiet hours nothing is noted: afterwards an alert that is still open is due, and one that has closed
-- without a message is not. Two evaluations at the same time note each only once: the key of the table decides.
WITH rule AS MATERIALIZED (
    SELECT rule.*, webhook.space_id, webhook.kinds, webhook.prefix
    FROM octo_alert_rule AS rule
    JOIN octo_webhook AS webhook ON webhook.id = rule.webhook_id AND webhook.paused_at IS NULL
    JOIN octo_space AS space ON space.id = webhook.space_id AND space.archived_at IS NULL
    WHERE rule.webhook_id <> ALL (%(quiet)s::bigint[])
),
due AS (
    SELECT rule.webhook_id AS rule_id, alert.id AS alert_id, alert.kind
    FROM rule
    JOIN octo_alert AS alert ON alert.kind = ANY (rule.kinds) AND (alert.space_id = rule.space_id OR alert.space_id IS NULL)
    WHERE alert.closed_at IS NULL AND alert.absent_since IS NULL
      AND CASE alert.kind
          WHEN 'token_expiring' THEN alert.due_at <= statement_timestamp() + rule.token_days * interval '1 day'
          ELSE alert.opened_at <= statement_timestamp() - rule.min_minutes * interval '1 minute'
      END
      AND (
          alert.kind <> 'stuck'
          OR (
              starts_with(alert.subject, rule.prefix)
              AND (cardinality(rule.reasons) = 0 OR alert.reasons && rule.reasons)
              AND NOT EXISTS (
                  SELECT FROM octo_snooze AS snooze
                  WHERE snooze.space_id = alert.space_id AND snooze.lock_name = alert.subject
                    AND snooze.fencing_token = alert.fencing_token AND snooze.until > statement_timestamp()
              )
          )
      )
    UNION ALL
    SELECT rule.webhook_id, alert.id, CASE alert.kind WHEN 'stuck' THEN 'stuck_cleared' ELSE 'system_recovered' END
    FROM rule
    JOIN octo_alert_notice AS sent ON sent.rule_id = rule.webhook_id
    JOIN octo_alert AS alert ON alert.id = sent.alert_id AND alert.kind = sent.kind
    WHERE alert.closed_at IS NOT NULL AND alert.kind <> 'token_expiring'
),
noted AS (
    INSERT INTO octo_alert_notice (rule_id, alert_id, kind)
    SELECT rule_id, alert_id, kind
    FROM due
    WHERE NOT EXISTS (
        SELECT FROM octo_alert_notice AS sent
        WHERE sent.rule_id = due.rule_id AND sent.alert_id = due.alert_id AND sent.kind = due.kind
    )
    ORDER BY rule_id, alert_id, kind
    LIMIT %(limit)s
    ON CONFLICT DO NOTHING
    RETURNING rule_id, alert_id, kind
)
SELECT
    noted.rule_id, noted.kind, alert.subject, alert.fencing_token, alert.owner, alert.reasons, alert.due_at, alert.opened_at,
    alert.closed_at
FROM noted
JOIN octo_alert AS alert ON alert.id = noted.alert_id
ORDER BY noted.rule_id, noted.kind, alert.id
