"""Events about alert rules as sentences."""

from locks.dashboard.untrusted_text import isolate
from locks.models import Event, EventKind

_VERBS: dict[str, str] = {
    EventKind.ALERT_RULE_CREATED: "created",
    EventKind.ALERT_RULE_CHANGED: "changed",
    EventKind.ALERT_RULE_PAUSED: "paused",
    EventKind.ALERT_RULE_RESUMED: "resumed",
    EventKind.ALERT_RULE_SECRET_ROTATED: "rotated the secret of",
    EventKind.ALERT_RULE_TESTED: "tested",
    EventKind.ALERT_RULE_REPLAYED: "replayed messages of",
    EventKind.ALERT_RULE_DELETED: "deleted",
}
RULE_KINDS = tuple(_VERBS)


def describe_rule_event(event: Event) -> str | None:
    """None for other kinds of events."""
    verb = _VERBS.get(event.kind)
    rule = isolate(str((event.detail or {}).get("rule")))
    return f"{event.actor_name} {verb} the alert rule {rule}" if verb else None
