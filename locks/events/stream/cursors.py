"""How far a watcher has read, as the text of an SSE `id` that it can resume from."""

import re
from datetime import UTC, datetime
from typing import NamedTuple

from locks.events.history.commit_order import Position

MAX_ID = 2**63 - 1
MAX_LENGTH = 4096

_NUMBER = r"[0-9a-f]{1,16}"
_VISIBILITY = rf"({_NUMBER})-((?:{_NUMBER}(?:\.{_NUMBER})*)?)"
_CURSOR = re.compile(rf"(?:({_NUMBER})\.)?({_NUMBER})-({_NUMBER})-({_NUMBER})(?:-{_VISIBILITY})?")


class InvalidCursor(ValueError):
    """The text is not the id of an event of ours."""


class SnapshotVisibility(NamedTuple):
    """The transactions that a snapshot showed: all before `xmax`, except those still in progress then.

    The history is read in the order of transactions, up to the oldest one in progress. Newer transactions may have
    committed before the snapshot: it shows their effects, so their events must not be sent again.
    """

    xmax: int
    in_progress: frozenset[int]

    def shows(self, txid: int) -> bool:
        return txid < self.xmax and txid not in self.in_progress

    def is_passed_by(self, position: Position) -> bool:
        """No event after the position can be of a transaction that the snapshot showed."""
        return position >= Position(self.xmax - 1, MAX_ID)


NOTHING = SnapshotVisibility(0, frozenset())


class Cursor(NamedTuple):
    """Every event up to the position was sent, or is part of the snapshot. `at` tells how old the cursor is. Positions
    can be compared on one timeline only (see octo_timeline)."""

    at: datetime
    position: Position
    timeline: int | None = None
    visibility: SnapshotVisibility = NOTHING

    def __str__(self) -> str:
        milliseconds = int(self.at.timestamp() * 1000)
        timeline = "" if self.timeline is None else f"{self.timeline:x}."
        text = f"{timeline}{milliseconds:x}-{self.position.commit_position:x}-{self.position.id:x}"
        if self.visibility.is_passed_by(self.position):
            return text
        # All of them: an event's position can be far after the transaction that wrote it.
        in_progress = ".".join(f"{txid:x}" for txid in sorted(self.visibility.in_progress))
        return f"{text}-{self.visibility.xmax:x}-{in_progress}"

    @classmethod
    def parse(cls, text: str) -> "Cursor":
        match = _CURSOR.fullmatch(text) if len(text) <= MAX_LENGTH else None
        if match is None:
            raise InvalidCursor
        milliseconds, commit_position, event_id, xmax = (int(part, 16) if part else 0 for part in match.groups()[1:5])
        timeline = int(match[1], 16) if match[1] else None
        in_progress = frozenset(int(part, 16) for part in (match[6] or "").split(".") if part)
        if max(timeline or 0, commit_position, event_id, xmax, *in_progress, 0) > MAX_ID:
            raise InvalidCursor
        try:
            at = datetime.fromtimestamp(milliseconds / 1000, UTC)
        except (ValueError, OverflowError, OSError):
            raise InvalidCursor from None
        visibility = SnapshotVisibility(xmax, in_progress) if xmax else NOTHING
        return cls(at, Position(commit_position, event_id), timeline, visibility)


def cursor_of_snapshot(text: str, timeline: int, at: datetime) -> Cursor:
    """From PostgreSQL's `xmin:xmax:xip,…`: everything that the snapshot does not show comes after this cursor."""
    xmin, xmax, in_progress = text.split(":")
    visibility = SnapshotVisibility(int(xmax), frozenset(int(txid) for txid in in_progress.split(",") if txid))
    return Cursor(at, Position(int(xmin) - 1, MAX_ID), timeline, visibility)
