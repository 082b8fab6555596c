"""Activity: the history of a space, newest first."""

from dataclasses import dataclass
from datetime import datetime

from django.http import QueryDict

from locks.dashboard.event_text import humanize_kind
from locks.dashboard.filters import Filters
from locks.events.history.filters import Filter, Visibility
from locks.events.history.pages import BadCursor, Cursor, in_utc, page
from locks.models import Event, EventKind, Space, Token

ROWS = 50
# More new events are not counted.
MAX_NEW = 100

KINDS: dict[str, str] = {kind.value: humanize_kind(kind) for kind in EventKind}


@dataclass(frozen=True, kw_only=True)
class ActivityFilters(Filters):
    CHOICES = {"kind": KINDS}
    NARROWING = ("kind", "lock", "owner", "actor", "token", "request")

    kind: str = ""
    lock: str = ""
    owner: str = ""
    # The actor's name at the time; the public id of a token; the id of a request.
    actor: str = ""
    token: str = ""
    request: str = ""

    @property
    def event_filter(self) -> Filter:
        return Filter(
            kinds=(self.kind,) if self.kind else (),
            name=self.lock or None,
            owner=self.owner or None,
            actor=self.actor or None,
            token=self.token or None,
            request_id=self.request or None,
        )


@dataclass(frozen=True, kw_only=True)
class ActivityPage:
    events: list[Event]
    # The cursors of the neighbouring pages.
    older: str | None
    newer: str | None
    # The cursor after which events are new to this page.
    latest: str | None


def parse_cursor(query: QueryDict) -> Cursor | None:
    try:
        return Cursor.decode(text) if (text := query.get("cursor")) else None
    except BadCursor:
        return None


def activity(*, space: Space, filters: ActivityFilters, cursor: Cursor | None) -> ActivityPage:
    results = page(Visibility(space_id=space.pk), filters.event_filter, limit=ROWS, cursor=cursor)
    newest = results.events[0] if results.events else None
    return ActivityPage(
        events=results.events,
        older=results.older.encode() if results.older else None,
        newer=results.newer.encode() if results.newer else None,
        latest=Cursor(towards="newer", at=newest.at, id=newest.pk).encode() if newest else None,
    )


def count_new(*, space: Space, filters: ActivityFilters, after: Cursor | None) -> int:
    """How many events of the filter came after the cursor, up to MAX_NEW."""
    return len(page(Visibility(space_id=space.pk), filters.event_filter, limit=MAX_NEW, cursor=after).events)


def parse_position(text: str) -> tuple[datetime, int] | None:
    """Where a page of a lock's history begins: the time and the id of the last event on the page before."""
    time, _, number = text.rpartition("_")
    if not (number.isascii() and number.isdigit() and len(number) < 19):
        return None
    try:
        at = datetime.fromisoformat(time)
    except ValueError:
        return None
    return (in_utc(at), int(number)) if at.tzinfo is not None else None


def find_event(*, space: Space, event_id: int) -> Event | None:
    return Event.objects.filter(space_id=space.pk, id=event_id).first()


def token_of(event: Event) -> Token | None:
    """None if the event has no token, or its row is gone."""
    return Token.objects.filter(pk=event.token_id).first() if event.token_id else None
