"""Pages of the history, newest first."""

from collections.abc import Iterator

from locks.events.history.filters import Filter, Visibility, select
from locks.models import Event
from locks.pagination import Page, TimeCursor, decode, fetch_page


def page(visibility: Visibility, filters: Filter, *, limit: int, cursor: TimeCursor | None = None) -> Page[Event]:
    return fetch_page(select(visibility, filters), by=TimeCursor, limit=limit, cursor=cursor)


def iter_pages(visibility: Visibility, filters: Filter, *, batch: int) -> Iterator[list[Event]]:
    """All of it, a batch at a time: neither memory nor a database snapshot holds the whole."""
    cursor: TimeCursor | None = None
    while True:
        part = page(visibility, filters, limit=batch, cursor=cursor)
        yield part.rows
        if part.older is None:
            return
        cursor = decode(part.older, TimeCursor)
