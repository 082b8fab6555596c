"""The alert rules of a space as the pages list them."""

from dataclasses import dataclass

from locks.dashboard.alerts.forms import DAYS
from locks.dashboard.webhooks.queries import WebhookRow, webhooks
from locks.models import AlertRule, EventKind, Space, Transport
from locks.services.alerts.rules import KINDS
from locks.services.stuck import Reason
from locks.services.webhooks import without_query

TRANSPORT_LABELS = {
    Transport.SLACK: "Slack",
    Transport.TEAMS: "Microsoft Teams",
    Transport.EMAIL: "E-mail",
    Transport.WEBHOOK: "Webhook",
}


@dataclass(frozen=True, kw_only=True)
class RuleRow:
    webhook: WebhookRow
    rule: AlertRule

    @property
    def transport_label(self) -> str:
        return TRANSPORT_LABELS[Transport(self.rule.transport)]

    @property
    def target_for_viewers(self) -> str:
        """Without what only admins see: the query of a URL, which may contain a secret, and e-mail addresses."""
        if self.rule.transport == Transport.EMAIL:
            recipients = len(self.webhook.url.split(","))
            return f"{recipients} recipient{'' if recipients == 1 else 's'}"
        return without_query(self.webhook.url)

    @property
    def conditions(self) -> list[str]:
        """What it sends, a sentence for each kind."""
        return [_describe(kind, self.rule) for kind in KINDS if kind in self.webhook.kinds]

    @property
    def quiet_hours(self) -> str | None:
        rule = self.rule
        if rule.quiet_from is None or rule.quiet_until is None:
            return None
        days = ", ".join(label for day, label in DAYS if day in rule.quiet_days)
        hours = (
            "All day" if rule.quiet_from == rule.quiet_until else f"{rule.quiet_from:%H:%M} to {rule.quiet_until:%H:%M}"
        )
        return f"{hours} {rule.quiet_zone}{f', {days}' if days else ''}"


def rules(*, space: Space) -> list[RuleRow]:
    rows = webhooks(space=space, rules=True)
    by_id = AlertRule.objects.in_bulk([row.id for row in rows])
    return [RuleRow(webhook=row, rule=by_id[row.id]) for row in rows if row.id in by_id]


def _describe(kind: str, rule: AlertRule) -> str:
    lasting = f" for {rule.min_minutes} min" if rule.min_minutes else ""
    match kind:
        case EventKind.STUCK:
            labels = [Reason(reason).label for reason in Reason if reason in rule.reasons]
            because = f" ({', '.join(labels)})" if labels else ""
            return f"Stuck{lasting}{because}"
        case EventKind.TOKEN_EXPIRING:
            return f"Token expires within {rule.token_days} day{'' if rule.token_days == 1 else 's'}"
        case EventKind.SYSTEM_UNHEALTHY:
            return f"System unhealthy{lasting}"
        case _:
            return "Force-released"
