"""Pages of the history, newest first, found by key: the last page is as quick as the first, in both directions."""

import base64
import binascii
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

import msgspec
from django.db.models import Q, QuerySet

from locks.events.history.filters import Filter, Visibility, select
from locks.models import Event


class BadCursor(ValueError):
    """The text is no cursor of ours."""


class Cursor(msgspec.Struct, kw_only=True, frozen=True):
    """Where a page begins: after this event, towards older or newer ones."""

    towards: Literal["older", "newer"]
    at: datetime
    id: int

    def encode(self) -> str:
        return base64.urlsafe_b64encode(msgspec.json.encode(self)).decode().rstrip("=")

    @classmethod
    def decode(cls, text: str) -> "Cursor":
        try:
            cursor = msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=cls)
        except (binascii.Error, ValueError, msgspec.DecodeError):
            raise BadCursor(text) from None
        if cursor.at.tzinfo is None or not 0 <= cursor.id < 2**63:
            raise BadCursor(text)
        return cls(towards=cursor.towards, at=in_utc(cursor.at), id=cursor.id)


def in_utc(time: datetime) -> datetime:
    """The database knows fewer offsets than Python, and Python fewer years than an offset can reach."""
    try:
        return time.astimezone(UTC)
    except OverflowError:
        return time.replace(tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class Page:
    """`older` and `newer` lead to the neighbouring pages, where there are any."""

    events: list[Event]
    older: Cursor | None
    newer: Cursor | None


def page(reach: Visibility, asked: Filter, *, limit: int, cursor: Cursor | None = None) -> Page:
    found = select(reach, asked)
    if cursor is not None and cursor.towards == "newer":
        events = list(_after(found, cursor).order_by("at", "id")[: limit + 1])
        more = len(events) > limit
        events = events[:limit][::-1]
        return _page(events, has_older=bool(events), has_newer=more)
    events = list((_after(found, cursor) if cursor else found).order_by("-at", "-id")[: limit + 1])
    return _page(events[:limit], has_older=len(events) > limit, has_newer=cursor is not None and bool(events))


def iter_pages(reach: Visibility, asked: Filter, *, batch: int) -> Iterator[list[Event]]:
    """All of it, a batch at a time: neither the memory nor a snapshot has to hold the whole."""
    cursor: Cursor | None = None
    while True:
        part = page(reach, asked, limit=batch, cursor=cursor)
        yield part.events
        if part.older is None:
            return
        cursor = part.older


def _after(found: QuerySet[Event], cursor: Cursor) -> QuerySet[Event]:
    # The first condition is implied by the second; it is what leaves out partitions and finds the place in an index.
    if cursor.towards == "newer":
        return found.filter(at__gte=cursor.at).filter(Q(at__gt=cursor.at) | Q(id__gt=cursor.id))
    return found.filter(at__lte=cursor.at).filter(Q(at__lt=cursor.at) | Q(id__lt=cursor.id))


def _page(events: list[Event], *, has_older: bool, has_newer: bool) -> Page:
    return Page(
        events=events,
        older=Cursor(towards="older", at=events[-1].at, id=events[-1].pk) if has_older else None,
        newer=Cursor(towards="newer", at=events[0].at, id=events[0].pk) if has_newer else None,
    )
