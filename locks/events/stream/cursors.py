"""How far a watcher has got, as text that it can come back with: the `id` of an SSE event."""

import re
from datetime import UTC, datetime
from typing import NamedTuple

from locks.events.history.commit_order import Position

HIGHEST = 2**63 - 1
LONGEST = 4096

_NUMBER = r"[0-9a-f]{1,16}"
_BOOKMARK = re.compile(rf"({_NUMBER})-({_NUMBER})-({_NUMBER})(?:-({_NUMBER})-((?:{_NUMBER}(?:\.{_NUMBER})*)?))?")


class BadCursor(ValueError):
    """The text is none of ours."""


class SnapshotVisibility(NamedTuple):
    """What a snapshot showed: every transaction before `beyond`, except those still `under_way` then.

    The history is read in the order of transactions, and some that are newer than the oldest one under way have been
    committed: the snapshot shows what they did, so their events must not come again.
    """

    beyond: int
    under_way: frozenset[int]

    def shows(self, commit_position: int) -> bool:
        return commit_position < self.beyond and commit_position not in self.under_way

    def is_behind(self, position: Position) -> bool:
        """Nothing that comes after the position can be in it."""
        return position >= Position(self.beyond - 1, HIGHEST)


NOTHING = SnapshotVisibility(0, frozenset())


class Cursor(NamedTuple):
    """Everything up to the position was told, or is in what was seen. `at` tells how old it is."""

    at: datetime
    position: Position
    seen: SnapshotVisibility = NOTHING

    def __str__(self) -> str:
        milliseconds = int(self.at.timestamp() * 1000)
        text = f"{milliseconds:x}-{self.position.commit_position:x}-{self.position.id:x}"
        if self.seen.is_behind(self.position):
            return text
        # All of them: an event may stand far behind the transaction that wrote it.
        return f"{text}-{self.seen.beyond:x}-{'.'.join(f'{commit_position:x}' for commit_position in sorted(self.seen.under_way))}"

    @classmethod
    def parse(cls, text: str) -> "Cursor":
        found = _BOOKMARK.fullmatch(text) if len(text) <= LONGEST else None
        if found is None:
            raise BadCursor
        milliseconds, commit_position, event, beyond = (int(part, 16) if part else 0 for part in found.groups()[:4])
        under_way = frozenset(int(part, 16) for part in (found[5] or "").split(".") if part)
        if max(commit_position, event, beyond, *under_way, 0) > HIGHEST:
            raise BadCursor
        try:
            at = datetime.fromtimestamp(milliseconds / 1000, UTC)
        except (ValueError, OverflowError, OSError):
            raise BadCursor from None
        return cls(at, Position(commit_position, event), SnapshotVisibility(beyond, under_way) if beyond else NOTHING)


def at_snapshot(text: str, at: datetime) -> Cursor:
    """Of PostgreSQL's `xmin:xmax:xip,…`: where everything that the snapshot does not show is still to come."""
    oldest, beyond, under_way = text.split(":")
    seen = SnapshotVisibility(
        int(beyond), frozenset(int(commit_position) for commit_position in under_way.split(",") if commit_position)
    )
    return Cursor(at, Position(int(oldest) - 1, HIGHEST), seen)
