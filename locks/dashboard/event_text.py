"""Events of the history as sentences, and the last events of some locks."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from locks.dashboard.alerts.event_text import RULE_KINDS, describe_rule_event
from locks.dashboard.database import fetch
from locks.dashboard.durations import humanize_ms
from locks.dashboard.team.event_text import describe_team_event
from locks.dashboard.untrusted_text import isolate
from locks.models import ActorKind, Event, EventKind, Space

RECENT = 5

_ICONS: dict[str, str] = {
    EventKind.ACQUIRED: "held",
    EventKind.RELEASED: "free",
    EventKind.EXPIRED: "overdue",
    EventKind.FORCE_RELEASED: "force",
    EventKind.SESSION_OPENED: "now",
    EventKind.SESSION_ENDED: "now",
    EventKind.SESSION_EXPIRED: "overdue",
    EventKind.TOKEN_ISSUED: "key",
    EventKind.TOKEN_ROTATED: "key",
    EventKind.TOKEN_REVOKED: "key",
    EventKind.EXTENDED: "held",
    EventKind.FROZEN: "freeze",
    EventKind.UNFROZEN: "freeze",
    EventKind.SNOOZED: "snooze",
    EventKind.SNOOZE_ENDED: "snooze",
    EventKind.NOTE_CHANGED: "note",
    EventKind.RELEASE_REQUESTED: "ask",
    EventKind.STUCK: "stuck",
    EventKind.STUCK_CLEARED: "check",
    EventKind.TOKEN_EXPIRING: "key",
    EventKind.SYSTEM_UNHEALTHY: "overdue",
    EventKind.SYSTEM_RECOVERED: "check",
    **dict.fromkeys(RULE_KINDS, "bell"),
    EventKind.BULK_RELEASE_STARTED: "force",
    EventKind.BULK_RELEASE_STOPPED: "force",
    EventKind.BULK_RELEASE_FINISHED: "force",
    EventKind.TEAM_CREATED: "people",
    EventKind.TEAM_RENAMED: "people",
    EventKind.MEMBER_JOINED: "person",
    EventKind.MEMBER_LEFT: "person",
    EventKind.MEMBER_REMOVED: "person",
    EventKind.ROLE_CHANGED: "person",
    EventKind.SPACE_ROLE_CHANGED: "person",
    EventKind.INVITE_CREATED: "person",
    EventKind.INVITE_REVOKED: "person",
    EventKind.SPACE_CREATED: "system",
    EventKind.SPACE_CHANGED: "system",
    EventKind.SPACE_ARCHIVED: "system",
    EventKind.SPACE_RESTORED: "system",
    EventKind.WEBHOOK_CREATED: "webhook",
    EventKind.WEBHOOK_CHANGED: "webhook",
    EventKind.WEBHOOK_PAUSED: "webhook",
    EventKind.WEBHOOK_RESUMED: "webhook",
    EventKind.WEBHOOK_SECRET_ROTATED: "webhook",
    EventKind.WEBHOOK_TESTED: "webhook",
    EventKind.WEBHOOK_REPLAYED: "webhook",
    EventKind.WEBHOOK_DELETED: "webhook",
    EventKind.HISTORY_EXPORTED: "activity",
    EventKind.LIST_EXPORTED: "activity",
    EventKind.RUN_STARTED: "runs",
    EventKind.RUN_DRAINED: "runs",
    EventKind.RUN_FINISHED: "runs",
    EventKind.RUN_EXPORTED: "runs",
    EventKind.LAYER_CREATED: "runs",
    EventKind.ACTOR_JOINED: "person",
    EventKind.ACTOR_ENDED: "person",
}


@dataclass(kw_only=True)
class EventSummary:
    id: int
    at: datetime
    kind: str
    lock_name: str | None
    owner: str | None
    actor_kind: str
    actor_name: str
    reason: str | None
    fencing_token: int | None
    held_ms: int | None
    recorded_late_ms: int | None
    now: datetime | None = None


def event_icon(kind: str) -> str:
    return _ICONS.get(kind, "dot")


def describe_event(event: EventSummary | Event) -> str:
    """Without the lock's name and the reason, which stand beside it."""
    held = f" after {humanize_ms(event.held_ms)}" if event.held_ms is not None else ""
    owner = isolate(event.owner)
    match event.kind:
        case EventKind.ACQUIRED if event.actor_kind == ActorKind.USER and event.actor_name != event.owner:
            return f"{event.actor_name} handed it over to {owner}"
        case EventKind.ACQUIRED:
            return f"{owner} {'reserved' if event.actor_kind == ActorKind.USER else 'acquired'} it"
        case EventKind.EXTENDED:
            return f"{owner} extended the reservation"
        case EventKind.RELEASED:
            return f"{owner} released it{held}"
        case EventKind.EXPIRED:
            return f"Lease of {owner} expired{held}"
        case EventKind.FORCE_RELEASED:
            return f"{event.actor_name} force-released it from {owner}{held}"
        case EventKind.ACL_CHANGED:
            return f"{event.actor_name} changed its access list"
        case EventKind.SNOOZED:
            return f"{event.actor_name} snoozed it while {owner} holds it"
        case EventKind.SNOOZE_ENDED:
            return f"{event.actor_name} ended its snooze"
        case EventKind.NOTE_CHANGED:
            prefix = (event.detail or {}).get("prefix") if isinstance(event, Event) else None
            return f"{event.actor_name} changed {f'the note of {isolate(prefix)}' if prefix else 'its note'}"
        case EventKind.RELEASE_REQUESTED:
            return f"{event.actor_name} requested the release from {owner}"
        case EventKind.STUCK:
            return f"It is stuck while {owner} holds it"
        case EventKind.STUCK_CLEARED:
            return "It is no longer stuck"
        case EventKind.TOKEN_EXPIRING:
            return "A token expires soon"
        case EventKind.SYSTEM_UNHEALTHY:
            return "The system needs attention"
        case EventKind.SYSTEM_RECOVERED:
            return "The system is healthy again"
        case EventKind.SESSION_OPENED:
            return f"{owner} opened a session"
        case EventKind.SESSION_ENDED:
            return f"{owner} ended its session{held}"
        case EventKind.SESSION_EXPIRED:
            return f"Session of {owner} expired{held}"
        case EventKind.HISTORY_EXPORTED:
            return f"{event.actor_name} exported the history"
        case EventKind.LIST_EXPORTED:
            return f"{event.actor_name} exported a list"
    sentence = None
    if isinstance(event, Event):
        sentence = (
            describe_team_event(event)
            or describe_rule_event(event)
            or _describe_bulk_release(event)
            or _describe_run(event)
            or _describe_freeze(event)
        )
    return sentence or f"{event.actor_name}: {humanize_kind(event.kind)}"


def _describe_bulk_release(event: Event) -> str | None:
    """Each lock has an event of its own besides."""
    detail = event.detail or {}
    locks = "1 lock" if detail.get("locks") == 1 else f"{detail.get('locks')} locks"
    done = f"{detail.get('released', 0)} released, {detail.get('skipped', 0)} skipped"
    match event.kind:
        case EventKind.BULK_RELEASE_STARTED:
            return f"{event.actor_name} started to force-release {locks}: {detail.get('selection')}"
        case EventKind.BULK_RELEASE_STOPPED:
            return f"{event.actor_name} stopped it: {done}, {detail.get('left', 0)} not attempted"
        case EventKind.BULK_RELEASE_FINISHED:
            return f"Release started by {event.actor_name} finished: {done}"
    return None


def _describe_run(event: Event) -> str | None:
    detail = event.detail or {}
    run = isolate(str(detail.get("run", "a run")))
    match event.kind:
        case EventKind.RUN_STARTED:
            return f"{event.actor_name} started {run}"
        case EventKind.RUN_DRAINED:
            return f"{event.actor_name} drained {run}"
        case EventKind.RUN_FINISHED:
            return f"{event.actor_name} finished {run}"
        case EventKind.RUN_EXPORTED:
            return f"{event.actor_name} exported {run}"
        case EventKind.LAYER_CREATED:
            return f"{event.actor_name} added the layer {isolate(str(detail.get('layer', '')))} to {run}"
        case EventKind.ACTOR_JOINED:
            return f"{isolate(event.owner)} joined {run} as {detail.get('role', 'actor')}"
        case EventKind.ACTOR_ENDED:
            return f"{isolate(event.owner)} left {run}"
    return None


def _describe_freeze(event: Event) -> str | None:
    prefix = (event.detail or {}).get("prefix")
    names = f"names that start with {isolate(prefix)}" if prefix else "all names of the space"
    match event.kind:
        case EventKind.FROZEN:
            return f"{event.actor_name} froze {names}"
        case EventKind.UNFROZEN if event.actor_kind == ActorKind.SYSTEM and event.actor_name == "expiry":
            return f"The freeze of {names} ended"
        case EventKind.UNFROZEN:
            return f"{event.actor_name} lifted the freeze of {names}"
    return None


def humanize_kind(kind: str) -> str:
    return kind.replace("_", " ")


def humanize_value(value: Any) -> str:
    """A value of an event's detail as text."""
    if value in (None, [], {}, ""):
        return "none"
    match value:
        case bool():
            return "yes" if value else "no"
        case [*entries]:
            return ", ".join(humanize_value(entry) for entry in entries)
        case {"from": before, "to": after}:
            return f"{humanize_value(before)} → {humanize_value(after)}"
        case dict():
            return ", ".join(f"{humanize_kind(str(key))}: {humanize_value(entry)}" for key, entry in value.items())
    return str(value)


def actor_label(event: Event) -> str:
    match event.actor_kind:
        case ActorKind.TOKEN:
            return f"token {event.actor_name}"
        case ActorKind.SYSTEM:
            ended_by_time = (EventKind.EXPIRED, EventKind.SESSION_EXPIRED, EventKind.UNFROZEN)
            return "system" if event.kind in ended_by_time else event.actor_name
    return event.actor_name


def recent_events(*, space: Space, names: Sequence[str]) -> dict[str, list[EventSummary]]:
    if not names:
        return {}
    parameters: dict[str, Any] = {"space_id": space.pk, "names": list(names), "each": RECENT}
    events: dict[str, list[EventSummary]] = {name: [] for name in names}
    for event in fetch("recent_events", EventSummary, parameters):
        events[event.lock_name or ""].append(event)
    return events
