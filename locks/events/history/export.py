"""Exports the history as CSV or JSON Lines, a batch at a time."""

import csv
import io
from collections.abc import Iterator
from typing import Any

import msgspec

from locks.events.history.filters import Filter, Visibility
from locks.events.history.pages import iter_pages
from locks.events.history.serializers import HistoryEvent, serialize

BATCH_SIZE = 1000
# A spreadsheet evaluates a cell that begins with one of these as a formula.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
_COLUMNS = (
    "id", "at", "kind", "lock_name", "fencing_token", "owner", "holder_id", "metadata", "token", "actor_kind",
    "actor_name", "channel", "address", "request_id", "reason", "held_ms", "overdue_ms", "detail",
)  # fmt: skip

_encode = msgspec.json.Encoder().encode


def as_csv(visibility: Visibility, filters: Filter) -> Iterator[bytes]:
    """With a header line. Text that a spreadsheet would evaluate gets an apostrophe in front."""
    yield (",".join(_COLUMNS) + "\r\n").encode()
    for events in iter_pages(visibility, filters, batch=BATCH_SIZE):
        text = io.StringIO()
        csv.writer(text).writerows(_cells(event) for event in serialize(events))
        yield text.getvalue().encode()


def as_json_lines(visibility: Visibility, filters: Filter) -> Iterator[bytes]:
    encoder = msgspec.json.Encoder()
    for events in iter_pages(visibility, filters, batch=BATCH_SIZE):
        yield encoder.encode_lines(serialize(events))


def _cells(event: HistoryEvent) -> list[Any]:
    return [
        event.id, event.at.isoformat().replace("+00:00", "Z"), event.kind, _text(event.lock_name), event.fencing_token,
        _text(event.owner), event.holder_id, _text(event.metadata), event.token, event.actor.kind,
        _text(event.actor.name), event.channel, event.address, _text(event.request_id), _text(event.reason),
        event.held_ms, event.overdue_ms, _encode(event.detail).decode() if event.detail is not None else None,
    ]  # fmt: skip


def _text(value: str | None) -> str | None:
    return f"'{value}" if value is not None and value.startswith(_FORMULA_STARTS) else value
