"""Exports the history as CSV or JSON Lines, a batch at a time. Limits the number of concurrent exports of any kind."""

import csv
import io
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec

from locks.events.history.filters import Filter, Visibility
from locks.events.history.pages import iter_pages
from locks.events.history.serializers import HistoryEvent, serialize

BATCH_SIZE = 1000
# At the same time in one server process. A client that reads slowly keeps its export under way for long.
MAX_EXPORTS = 32
MAX_EXPORTS_PER_TEAM = 4
MAX_EXPORTS_PER_ACTOR = 2
RETRY_SECONDS = 10
# A spreadsheet evaluates a cell that begins with one of these as a formula.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
_COLUMNS = (
    "id", "at", "kind", "lock_name", "fencing_token", "owner", "holder_id", "metadata", "token", "actor_kind",
    "actor_name", "channel", "address", "request_id", "reason", "held_ms", "overdue_ms", "detail",
)  # fmt: skip

_encode = msgspec.json.Encoder().encode


class TooManyExports(Exception):
    """The message says which limit is reached."""


class ExportCounts:
    """How many exports are under way: in all, by team and by actor."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[Hashable] = Counter()

    def take(self, *, team_id: int, actor: Hashable) -> Callable[[], None]:
        """Returns what ends the export. Raises TooManyExports."""
        limits: dict[Hashable, tuple[int, str]] = {
            "process": (MAX_EXPORTS, "Too many exports are under way on this server."),
            ("team", team_id): (MAX_EXPORTS_PER_TEAM, "Too many exports of this team are under way."),
            ("actor", actor): (MAX_EXPORTS_PER_ACTOR, "Too many of your exports are under way."),
        }
        with self._lock:
            for key, (maximum, message) in limits.items():
                if self._counts[key] >= maximum:
                    raise TooManyExports(message)
            self._counts.update(limits.keys())

        def give_back() -> None:
            with self._lock:
                self._counts -= Counter(limits.keys())

        return give_back


under_way = ExportCounts()


class Export:
    """The pieces of an export. It is under way until it is closed, or was dropped without having been read."""

    def __init__(self, pieces: Iterator[bytes], *, team_id: int, actor: Hashable) -> None:
        """Raises TooManyExports."""
        end = under_way.take(team_id=team_id, actor=actor)
        self.close = weakref.finalize(self, end)
        self._pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        return next(self._pieces)


def export_history(visibility: Visibility, filters: Filter, *, format_: str, team_id: int, actor: Hashable) -> Export:
    """Raises TooManyExports."""
    return Export(_WRITERS[format_](visibility, filters), team_id=team_id, actor=actor)


def csv_pieces(columns: Sequence[str], batches: Iterable[Iterable[Sequence[Any]]]) -> Iterator[bytes]:
    """With a header line; a piece for each batch of rows. Text that a spreadsheet would evaluate gets an apostrophe in
    front; times are in UTC."""
    yield _csv_lines([columns])
    for batch in batches:
        yield _csv_lines(batch)


def _csv_lines(rows: Iterable[Sequence[Any]]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows([_cell(value) for value in row] for row in rows)
    return text.getvalue().encode()


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        return f"'{value}" if value.startswith(_FORMULA_STARTS) else value
    return value.isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else value


def as_csv(visibility: Visibility, filters: Filter) -> Iterator[bytes]:
    pages = iter_pages(visibility, filters, batch=BATCH_SIZE)
    return csv_pieces(_COLUMNS, ((_row(event) for event in serialize(events)) for events in pages))


def as_json_lines(visibility: Visibility, filters: Filter) -> Iterator[bytes]:
    encoder = msgspec.json.Encoder()
    for events in iter_pages(visibility, filters, batch=BATCH_SIZE):
        yield encoder.encode_lines(serialize(events))


CONTENT_TYPES = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson"}
_WRITERS = {"csv": as_csv, "jsonl": as_json_lines}


def _row(event: HistoryEvent) -> list[Any]:
    return [
        event.id, event.at, event.kind, event.lock_name, event.fencing_token, event.owner, event.holder_id,
        event.metadata, event.token, event.actor.kind, event.actor.name, event.channel, event.address,
        event.request_id, event.reason, event.held_ms, event.overdue_ms,
        _encode(event.detail).decode() if event.detail is not None else None,
    ]  # fmt: skip
