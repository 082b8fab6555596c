"""How a hold that was shown has ended meanwhile."""

from locks.models import Event, EventKind, Space

_ENDS = (EventKind.RELEASED, EventKind.EXPIRED, EventKind.FORCE_RELEASED)


def end_of_hold(*, space: Space, name: str, fencing_token: int) -> Event | None:
    """None if its end is not recorded yet, or no longer in the history."""
    ends = Event.objects.filter(space_id=space.pk, lock_name=name, fencing_token=fencing_token, kind__in=_ENDS)
    return ends.order_by("-at", "-id").first()
