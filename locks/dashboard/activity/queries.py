"""Activity: the history of a space, newest first."""

from dataclasses import dataclass

from locks.dashboard.event_text import humanize_kind
from locks.dashboard.filters import Filters
from locks.events.history.filters import Filter, Visibility
from locks.events.history.pages import page
from locks.models import Event, EventKind, Space, Token
from locks.models.event import ACCOUNT_KINDS, TEAM_KINDS
from locks.pagination import TimeCursor, cursor_at, encode

ROWS = 50
# More new events are not counted.
MAX_NEW = 100

# Those about a team are in its audit log, those about an account on the page of the account.
KINDS: dict[str, str] = {
    kind.value: humanize_kind(kind) for kind in EventKind if kind not in (*ACCOUNT_KINDS, *TEAM_KINDS)
}


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


def activity(*, space: Space, filters: ActivityFilters, cursor: TimeCursor | None) -> ActivityPage:
    results = page(Visibility(space_id=space.pk), filters.event_filter, limit=ROWS, cursor=cursor)
    newest = results.rows[0] if results.rows else None
    return ActivityPage(
        events=results.rows,
        older=results.older,
        newer=results.newer,
        latest=encode(cursor_at(newest, by=TimeCursor, direction="newer")) if newest else None,
    )


def count_new(*, space: Space, filters: ActivityFilters, after: TimeCursor | None) -> int:
    """How many events of the filter came after the cursor, up to MAX_NEW."""
    return len(page(Visibility(space_id=space.pk), filters.event_filter, limit=MAX_NEW, cursor=after).rows)


def find_event(*, space: Space, event_id: int) -> Event | None:
    return Event.objects.filter(space_id=space.pk, id=event_id).first()


def token_of(event: Event) -> Token | None:
    """None if the event has no token, or its row is gone."""
    return Token.objects.filter(pk=event.token_id).first() if event.token_id else None
