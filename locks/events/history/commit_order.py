"""Reads the history in commit order from a position that can be remembered: nothing is skipped or comes twice."""

from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from locks.engine.operations import Operation
from locks.engine.statements import Statement

_DIRECTORY = Path(__file__).parent / "sql"


class Position(NamedTuple):
    """The last event that was read: its transaction and its id."""

    commit_position: int
    id: int


BEGINNING = Position(0, 0)


class Followed(msgspec.Struct):
    commit_position: int
    id: int
    at: datetime
    kind: str
    space_id: int | None
    lock_name: str | None
    fencing_token: int | None
    owner: str | None
    metadata: str | None

    @property
    def position(self) -> Position:
        return Position(self.commit_position, self.id)


_FOLLOW = Statement("follow", (_DIRECTORY / "follow.sql").read_text(), Followed)
_HERE = Statement("here", (_DIRECTORY / "current_position.sql").read_text(), Position)


def follow(position: Position, *, limit: int = 1000) -> Operation[list[Followed]]:
    """What came after the position; the last of it is the next position."""
    return (yield _FOLLOW, [position.commit_position, position.id, limit])


def current_position() -> Operation[Position]:
    (position,) = yield _HERE, []
    return position  # type: ignore[no-any-return]
