"""What happened to the account of a user."""

from locks.models import ActorKind, Event, User
from locks.models.event import ACCOUNT_KINDS

MAX_EVENTS = 20


def account_events(user: User) -> list[Event]:
    """The latest first. They belong to no space."""
    events = Event.objects.filter(space_id=None, kind__in=ACCOUNT_KINDS, actor_kind=ActorKind.USER, actor_id=user.pk)
    return list(events.order_by("-at", "-id")[:MAX_EVENTS])
