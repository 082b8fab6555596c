"""Events about a team, its tokens, spaces and webhooks as sentences."""

from typing import Any

from locks.models import Event, EventKind


def describe_team_event(event: Event) -> str | None:
    """None for other kinds of events."""
    who = event.actor_name
    detail: dict[str, Any] = event.detail or {}
    match event.kind:
        case EventKind.TOKEN_ISSUED:
            return f"{who} issued the token {detail.get('name')}"
        case EventKind.TOKEN_ROTATED:
            return f"{who} rotated the token {detail.get('name')}"
        case EventKind.TOKEN_REVOKED:
            return f"{who} revoked the token {detail.get('name')}"
        case EventKind.TEAM_CREATED:
            return f"{who} created the team {detail.get('team')}"
        case EventKind.TEAM_RENAMED:
            return f"{who} renamed the team from {detail.get('from')} to {detail.get('to')}"
        case EventKind.MEMBER_JOINED:
            invited_by = f", invited by {detail['invited_by']}" if detail.get("invited_by") else ""
            return f"{detail.get('person')} joined as {detail.get('role')}{invited_by}"
        case EventKind.MEMBER_LEFT:
            return f"{detail.get('person')} ({detail.get('role')}) left"
        case EventKind.MEMBER_REMOVED:
            return f"{who} removed {detail.get('person')} ({detail.get('role')})"
        case EventKind.ROLE_CHANGED:
            return f"{who} changed the role of {detail.get('person')} from {detail.get('from')} to {detail.get('to')}"
        case EventKind.SPACE_ROLE_CHANGED:
            return (
                f"{who} changed the role of {detail.get('person')} in {detail.get('space')} from {detail.get('from')} "
                f"to {detail.get('to')}"
            )
        case EventKind.INVITE_CREATED:
            return f"{who} invited {_invited(detail)}"
        case EventKind.INVITE_REVOKED:
            return f"{who} revoked the invitation of {_invited(detail)}"
        case EventKind.SPACE_CREATED:
            return f"{who} created the space {detail.get('space')}"
        case EventKind.SPACE_CHANGED:
            fields = [field.replace("_", " ") for field in detail if field != "space"]
            return f"{who} changed {', '.join(fields)} of {detail.get('space')}"
        case EventKind.SPACE_ARCHIVED:
            return f"{who} archived the space {detail.get('space')}"
        case EventKind.SPACE_RESTORED:
            return f"{who} restored the space {detail.get('space')}"
        case EventKind.WEBHOOK_CREATED:
            return f"{who} created the webhook to {detail.get('url')}"
        case EventKind.WEBHOOK_CHANGED:
            return f"{who} changed the webhook to {detail.get('url')}"
        case EventKind.WEBHOOK_PAUSED:
            return f"{who} paused the webhook to {detail.get('url')}"
        case EventKind.WEBHOOK_RESUMED:
            return f"{who} resumed the webhook to {detail.get('url')}"
        case EventKind.WEBHOOK_DELETED:
            return f"{who} deleted the webhook to {detail.get('url')}"
        case EventKind.WEBHOOK_SECRET_ROTATED:
            return f"{who} rotated the secret of the webhook {detail.get('webhook')}"
        case EventKind.WEBHOOK_TESTED:
            return f"{who} tested the webhook {detail.get('webhook')}"
        case EventKind.WEBHOOK_REPLAYED:
            deliveries = "1 delivery" if detail.get("deliveries") == 1 else f"{detail.get('deliveries')} deliveries"
            return f"{who} replayed {deliveries} of the webhook {detail.get('webhook')}"
    return None


def _invited(detail: dict[str, Any]) -> str:
    note = detail.get("note")
    return f"{note} as {detail.get('role')}" if note else f"a new {detail.get('role')}"
