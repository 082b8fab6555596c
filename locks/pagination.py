"""Keyset pagination: opaque cursors with a typed key, and pages of a queryset that start at one.

Every page costs the same, however far it is from the first one, in both directions.
"""

import base64
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Generic, Literal, TypeVar

import msgspec
from django.db.models import Model, Q, QuerySet
from msgspec import Meta

MAX_CURSOR = 4096

# What PostgreSQL can store: a bigint, a text without NUL.
BigInt = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Text = Annotated[str, Meta(pattern=r"\A[^\0]*\Z")]
Moment = Annotated[datetime, Meta(tz=True)]

Key = TypeVar("Key", bound=msgspec.Struct)
Row = TypeVar("Row", bound=Model)


class InvalidCursor(ValueError):
    """The text is not a cursor of this list."""


class IdCursor(msgspec.Struct, kw_only=True, frozen=True):
    """The page of a list ordered by id that begins after this row, towards older or newer rows."""

    id: BigInt
    direction: Literal["older", "newer"] = "older"


class TimeCursor(IdCursor, kw_only=True, frozen=True):
    """The same for a list that is ordered by `at`, then by id."""

    at: Moment


Cursor = TypeVar("Cursor", bound=IdCursor)


def encode(key: msgspec.Struct) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(key)).decode().rstrip("=")


def decode(text: str, key: type[Key]) -> Key:
    """Raises InvalidCursor for anything that could not have come from `encode`, or that the database cannot compare."""
    if len(text) > MAX_CURSOR:
        raise InvalidCursor
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        decoded = msgspec.json.decode(raw, type=key)
    except (ValueError, msgspec.DecodeError):
        raise InvalidCursor from None
    times = {field: value for field, value in msgspec.structs.asdict(decoded).items() if isinstance(value, datetime)}
    return msgspec.structs.replace(decoded, **{field: to_utc(value) for field, value in times.items()})


def decode_or_none(text: str | None, key: type[Key]) -> Key | None:
    """For the cursor in a page's address: an invalid one is ignored."""
    try:
        return decode(text, key) if text else None
    except InvalidCursor:
        return None


def to_utc(time: datetime) -> datetime:
    """PostgreSQL accepts fewer offsets than Python. An offset can lead out of Python's years: then it is ignored."""
    try:
        return time.astimezone(UTC)
    except OverflowError:
        return time.replace(tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class Page(Generic[Row]):
    """Newest first. `older` and `newer` are the cursors of the neighbouring pages, where there are any."""

    rows: list[Row]
    older: str | None
    newer: str | None


def fetch_page(rows: "QuerySet[Row]", *, by: type[Cursor], limit: int, cursor: Cursor | None) -> Page[Row]:
    """One row more than the page has is read, to know whether there is another page."""
    order = ("at", "id") if issubclass(by, TimeCursor) else ("id",)
    if cursor is not None:
        rows = _after(rows, cursor)
    if cursor is not None and cursor.direction == "newer":
        found = list(rows.order_by(*order)[: limit + 1])
        more_newer, found = len(found) > limit, found[:limit][::-1]
        more_older = bool(found)
    else:
        found = list(rows.order_by(*(f"-{field}" for field in order))[: limit + 1])
        more_older, found = len(found) > limit, found[:limit]
        more_newer = cursor is not None and bool(found)
    return Page(
        rows=found,
        older=encode(cursor_at(found[-1], by=by, direction="older")) if more_older else None,
        newer=encode(cursor_at(found[0], by=by, direction="newer")) if more_newer else None,
    )


def cursor_at(row: Model, *, by: type[Cursor], direction: Literal["older", "newer"]) -> Cursor:
    key = {field: getattr(row, field) for field in by.__struct_fields__ if field != "direction"}
    return by(direction=direction, **key)


def _after(rows: "QuerySet[Row]", cursor: IdCursor) -> "QuerySet[Row]":
    comparison = "gt" if cursor.direction == "newer" else "lt"
    after = Q(**{f"id__{comparison}": cursor.id})
    if isinstance(cursor, TimeCursor):
        # Implied by the condition below; it is what skips partitions and finds the place in an index.
        rows = rows.filter(**{f"at__{comparison}e": cursor.at})
        after |= Q(**{f"at__{comparison}": cursor.at})
    return rows.filter(after)
