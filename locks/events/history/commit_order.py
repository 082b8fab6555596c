"""Positions in the history in commit order: a reader that remembers one misses no event and gets none twice."""

from pathlib import Path
from typing import NamedTuple

from locks.engine.operations import Operation
from locks.engine.statements import Statement


class Position(NamedTuple):
    """The last event that was read: its commit position and its id."""

    commit_position: int
    id: int


_CURRENT_POSITION = Statement(
    "current_position", (Path(__file__).parent / "sql" / "current_position.sql").read_text(), Position
)


def current_position() -> Operation[Position]:
    (position,) = yield _CURRENT_POSITION, []
    return position  # type: ignore[no-any-return]  # an Operation is sent rows of any type
