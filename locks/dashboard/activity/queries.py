"""Activity: the history of a space, newest first."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Self
from uuid import UUID

from django.http import QueryDict

from locks.dashboard.event_text import humanize_kind
from locks.dashboard.filters import Filters
from locks.events.history.filters import Filter, Visibility
from locks.events.history.pages import page
from locks.models import Event, EventKind, Space, Token
from locks.models.event import ACCOUNT_KINDS, SYSTEM_KINDS, TEAM_KINDS
from locks.pagination import TimeCursor, cursor_at, encode
from locks.runs.queries import token_ids

ROWS = 50
# So many newer events are shown above the one whose surroundings are asked for.
NEWER_ROWS = 25
# More new events are not counted.
MAX_NEW = 100
# Times in other years count as absent.
MIN_YEAR, MAX_YEAR = 1970, 9998

# Those about a team are in its audit log, those about an account on the page of the account, and those about the
# installation belong to no space.
KINDS: dict[str, str] = {
    kind.value: humanize_kind(kind) for kind in EventKind if kind not in (*ACCOUNT_KINDS, *TEAM_KINDS, *SYSTEM_KINDS)
}
# What workers do all the time.
ROUTINE = (EventKind.ACQUIRED, EventKind.RELEASED, EventKind.SESSION_OPENED, EventKind.SESSION_ENDED)


@dataclass(frozen=True, kw_only=True)
class ActivityFilters(Filters):
    """`hide` leaves routine events out. `since` and `until` are in UTC, as a browser sends them: 2026-11-18T00:10."""

    CHOICES = {"hide": ("routine",)}
    NARROWING = ("kind", "hide", "since", "until", "lock", "prefix", "owner", "actor", "token", "request", "run")
    NAMES = {"lock": False, "prefix": True}

    kind: tuple[str, ...] = ()
    hide: str = ""
    since: str = ""
    until: str = ""
    lock: str = ""
    prefix: str = ""
    owner: str = ""
    # The actor's name at the time; the public id of a token; the id of a request.
    actor: str = ""
    token: str = ""
    request: str = ""
    # The id of a run: all events that concern one of its actors.
    run: str = ""

    @classmethod
    def of(cls, query: QueryDict) -> Self:
        filters = super().of(query)
        kinds = tuple(kind for kind in KINDS if kind in query.getlist("kind"))
        return replace(
            filters, kind=kinds, since=time_text(filters.since), until=time_text(filters.until),
            run=str(run) if (run := _parse_id(filters.run)) else "",
        )  # fmt: skip

    def event_filter(self, space: Space) -> Filter:
        kinds = self.kind
        if self.hide:
            kinds = tuple(kind for kind in kinds or KINDS if kind not in ROUTINE) or kinds
        return Filter(
            kinds=kinds,
            since=parse_time(self.since),
            until=parse_time(self.until),
            name=self.lock or None,
            prefix=self.prefix or None,
            owner=self.owner or None,
            actor=self.actor or None,
            token=self.token or None,
            request_id=self.request or None,
            token_ids=token_ids(space=space, run_id=run_id) if (run_id := _parse_id(self.run)) else None,
        )


@dataclass(frozen=True, kw_only=True)
class ActivityPage:
    events: list[Event]
    # The cursors of the neighbouring pages.
    older: str | None
    newer: str | None
    # The cursor after which events are new to this page.
    latest: str | None


def activity(*, space: Space, filters: ActivityFilters, cursor: TimeCursor | None) -> ActivityPage:
    results = page(Visibility(space_id=space.pk), filters.event_filter(space), limit=ROWS, cursor=cursor)
    newest = results.rows[0] if results.rows else None
    return ActivityPage(
        events=results.rows,
        older=results.older,
        newer=results.newer,
        latest=encode(cursor_at(newest, by=TimeCursor, direction="newer")) if newest else None,
    )


def count_new(*, space: Space, filters: ActivityFilters, after: TimeCursor | None) -> int:
    """How many events of the filter came after the cursor, up to MAX_NEW."""
    return len(page(Visibility(space_id=space.pk), filters.event_filter(space), limit=MAX_NEW, cursor=after).rows)


def cursor_around(*, space: Space, filters: ActivityFilters, event: Event) -> TimeCursor | None:
    """The page that has the event in its middle; None if that is the first."""
    after = cursor_at(event, by=TimeCursor, direction="newer")
    newer = page(Visibility(space_id=space.pk), filters.event_filter(space), limit=NEWER_ROWS, cursor=after).rows
    return cursor_at(newer[0], by=TimeCursor, direction="older") if len(newer) == NEWER_ROWS else None


def find_event(*, space: Space, event_id: int) -> Event | None:
    return Event.objects.filter(space_id=space.pk, id=event_id).first()


def token_of(event: Event) -> Token | None:
    """None if the event has no token, or its row is gone."""
    return Token.objects.filter(pk=event.token_id).first() if event.token_id else None


def parse_time(text: str) -> datetime | None:
    try:
        time = datetime.fromisoformat(text).replace(tzinfo=UTC)
    except ValueError:
        return None
    # Near the ends of the calendar, a period before or after the time overflows.
    return time if MIN_YEAR <= time.year <= MAX_YEAR else None


def _parse_id(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def time_text(text: str) -> str:
    return text if parse_time(text) else ""
