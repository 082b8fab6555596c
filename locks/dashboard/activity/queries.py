"""The history of a space, newest first: a filter in the address, a page of events out of the database."""

from dataclasses import dataclass, fields

from django.http import QueryDict

from locks.events.history.filters import Filter, Visibility
from locks.events.history.pages import page
from locks.models import Event, EventKind, Space, Token
from locks.pagination import TimeCursor, cursor_at, encode

ROWS = 50
# So many new events are counted; beyond that there are "more".
MAX_NEWS = 100
MAX_TEXT = 256

KINDS: dict[str, str] = {kind.value: kind.value.replace("_", " ") for kind in EventKind}


@dataclass(frozen=True, kw_only=True)
class ActivityFilter:
    """What the address asks for. Nonsense in it is as good as nothing."""

    kind: str = ""
    lock: str = ""
    owner: str = ""
    # Who acted, by the name as it was; the public id of a token; the id of a request.
    actor: str = ""
    token: str = ""
    request: str = ""

    @classmethod
    def of(cls, query: QueryDict) -> "ActivityFilter":
        # Postgres takes no null character in a text, and nothing in the history has one.
        texts = {field.name: query.get(field.name, "").replace("\0", "").strip()[:MAX_TEXT] for field in fields(cls)}
        return cls(**{**texts, "kind": texts["kind"] if texts["kind"] in KINDS else ""})

    @property
    def narrows(self) -> bool:
        return self != ActivityFilter()

    @property
    def is_unusual(self) -> bool:
        """Asks for what the plain form does not show."""
        return bool(self.owner or self.actor or self.token or self.request)

    @property
    def asked(self) -> Filter:
        return Filter(
            kinds=(self.kind,) if self.kind else (),
            name=self.lock or None,
            owner=self.owner or None,
            actor=self.actor or None,
            token=self.token or None,
            request_id=self.request or None,
        )

    def query(self, **others: str) -> str:
        """The address' query for this filter; what is as usual is left out."""
        parameters = QueryDict(mutable=True)
        for field in fields(self):
            if value := getattr(self, field.name):
                parameters[field.name] = value
        for name, text in others.items():
            parameters[name] = text
        return f"?{parameters.urlencode()}" if parameters else "?"


@dataclass(frozen=True, kw_only=True)
class ActivityPage:
    events: list[Event]
    # The queries of the pages with what happened before and after.
    older: str | None
    newer: str | None
    # What the page asks to learn of newer events; None on the pages of older ones.
    news: str | None


def activity(*, space: Space, wanted: ActivityFilter, cursor: TimeCursor | None) -> ActivityPage:
    found = page(Visibility(space_id=space.pk), wanted.asked, limit=ROWS, cursor=cursor)
    latest = {"cursor": encode(cursor_at(found.rows[0], by=TimeCursor, direction="newer"))} if found.rows else {}
    return ActivityPage(
        events=found.rows,
        older=wanted.query(cursor=found.older) if found.older else None,
        newer=wanted.query(cursor=found.newer) if found.newer else None,
        news=wanted.query(**latest) if cursor is None else None,
    )


def number_of_news(*, space: Space, wanted: ActivityFilter, seen: TimeCursor | None) -> int:
    """How many events that the filter finds came after; no more than MAX_NEWS are counted."""
    return len(page(Visibility(space_id=space.pk), wanted.asked, limit=MAX_NEWS, cursor=seen).rows)


def find_event(*, space: Space, event_id: int) -> Event | None:
    return Event.objects.filter(space_id=space.pk, id=event_id).first()


def token_of(event: Event) -> Token | None:
    """The token concerned, while there is a row of it."""
    return Token.objects.filter(pk=event.token_id).first() if event.token_id else None
