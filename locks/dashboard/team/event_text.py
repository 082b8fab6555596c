"""What people did to a team, as sentences."""

from typing import Any

from locks.models import Event, EventKind

_WEBHOOK_ACTS = {
    EventKind.WEBHOOK_CREATED.value: "made",
    EventKind.WEBHOOK_CHANGED.value: "changed",
    EventKind.WEBHOOK_PAUSED.value: "paused",
    EventKind.WEBHOOK_RESUMED.value: "resumed",
    EventKind.WEBHOOK_DELETED.value: "deleted",
}


def team_sentence(event: Event) -> str | None:
    """None for what this does not know."""
    who = event.actor_name
    said: dict[str, Any] = event.detail or {}
    match event.kind:
        case EventKind.TOKEN_ISSUED:
            return f"{who} issued the token {said.get('name')}"
        case EventKind.TOKEN_ROTATED:
            return f"{who} rotated the token {said.get('name')}"
        case EventKind.TOKEN_REVOKED:
            return f"{who} revoked the token {said.get('name')}"
        case EventKind.TEAM_CREATED:
            return f"{who} made the team {said.get('team')}"
        case EventKind.TEAM_RENAMED:
            return f"{who} renamed the team from {said.get('from')} to {said.get('to')}"
        case EventKind.MEMBER_JOINED:
            return f"{said.get('person')} joined as {said.get('role')}, invited by {said.get('invited_by') or 'nobody'}"
        case EventKind.MEMBER_LEFT:
            return f"{said.get('person')}, {said.get('role')}, left"
        case EventKind.MEMBER_REMOVED:
            return f"{who} removed {said.get('person')}, {said.get('role')}"
        case EventKind.ROLE_CHANGED:
            return f"{who} made {said.get('person')} {said.get('to')} instead of {said.get('from')}"
        case EventKind.INVITE_CREATED:
            return f"{who} invited {said.get('note') or 'somebody'} as {said.get('role')}"
        case EventKind.INVITE_REVOKED:
            return f"{who} took back the invitation of {said.get('note') or 'somebody'} as {said.get('role')}"
        case EventKind.SPACE_CREATED:
            return f"{who} made the space {said.get('space')}"
        case EventKind.SPACE_CHANGED:
            changed = [field.replace("_", " ") for field in said if field != "space"]
            return f"{who} changed {', '.join(changed)} of {said.get('space')}"
        case EventKind.SPACE_ARCHIVED:
            return f"{who} archived the space {said.get('space')}"
        case EventKind.SPACE_RESTORED:
            return f"{who} restored the space {said.get('space')}"
        case EventKind.WEBHOOK_SECRET_ROTATED:
            return f"{who} got a new secret of the webhook {said.get('webhook')}"
        case EventKind.WEBHOOK_TESTED:
            return f"{who} tested the webhook {said.get('webhook')}"
        case EventKind.WEBHOOK_REPLAYED:
            deliveries = "1 delivery" if said.get("deliveries") == 1 else f"{said.get('deliveries')} deliveries"
            return f"{who} replayed {deliveries} of the webhook {said.get('webhook')}"
    if (act := _WEBHOOK_ACTS.get(event.kind)) is not None:
        return f"{who} {act} the webhook to {said.get('url')}"
    return None
