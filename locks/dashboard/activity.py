"""The history of a space, newest first: a filter in the address, a page of events out of the database."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q
from django.http import QueryDict

from locks.models import Event, EventKind, Space

ROWS = 50

KINDS: dict[str, str] = {kind.value: kind.value.replace("_", " ") for kind in EventKind}


@dataclass(frozen=True, kw_only=True)
class ActivityFilter:
    kind: str = ""
    lock: str = ""
    before: tuple[datetime, int] | None = None

    @classmethod
    def of(cls, query: QueryDict) -> "ActivityFilter":
        kind = query.get("kind", "")
        return cls(
            kind=kind if kind in KINDS else "",
            lock=query.get("lock", "").replace("\0", "").strip()[:256],
            before=position(query.get("before", "")),
        )

    def query(self, *, before: Event | None) -> str:
        parameters = QueryDict(mutable=True)
        if self.kind:
            parameters["kind"] = self.kind
        if self.lock:
            parameters["lock"] = self.lock
        if before is not None:
            parameters["before"] = f"{before.at.isoformat()}_{before.pk}"
        return f"?{parameters.urlencode()}" if parameters else "?"


@dataclass(frozen=True, kw_only=True)
class ActivityPage:
    events: list[Event]
    # The query of the page with what happened before.
    older: str | None


def position(text: str) -> tuple[datetime, int] | None:
    """A place in the history as an address carries it: the moment and the id of the last event seen."""
    moment, _, number = text.rpartition("_")
    if not (number.isascii() and number.isdigit() and len(number) < 19):
        return None
    try:
        at = datetime.fromisoformat(moment)
    except ValueError:
        return None
    return (at, int(number)) if at.tzinfo is not None else None


def activity(*, space: Space, wanted: ActivityFilter) -> ActivityPage:
    events = Event.objects.filter(space_id=space.pk)
    if wanted.kind:
        events = events.filter(kind=wanted.kind)
    if wanted.lock:
        events = events.filter(lock_name=wanted.lock)
    if wanted.before is not None:
        at, number = wanted.before
        # The first condition alone lets the index begin at the right place.
        events = events.filter(at__lte=at).filter(Q(at__lt=at) | Q(id__lt=number))
    found = list(events.order_by("-at", "-id")[: ROWS + 1])
    shown = found[:ROWS]
    return ActivityPage(events=shown, older=wanted.query(before=shown[-1]) if len(found) > ROWS else None)


def find_event(*, space: Space, event_id: int) -> Event | None:
    return Event.objects.filter(space_id=space.pk, id=event_id).first()
