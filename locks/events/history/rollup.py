"""Counts the history by space and minute, and adds what the servers have counted in memory."""

from pathlib import Path
from typing import Any

import msgspec

from locks.engine.operations import Operation
from locks.engine.statements import Statement

# One commit for so many transactions: a backlog is worked off in pieces.
TRANSACTIONS_AT_ONCE = 100_000

_DIRECTORY = Path(__file__).parent / "sql"


class RolledUp(msgspec.Struct):
    events: int
    more: bool


class Tally(msgspec.Struct, kw_only=True):
    """What a server process has counted of a space in a minute."""

    space_id: int
    minute: str
    renewed: int = 0
    refused: int = 0
    waited: int = 0
    # How many waits ended in each bucket; see `distribution`.
    waits: dict[int, int] = {}
    # The names that were refused most.
    names: dict[str, int] = {}
    # The names that were waited for most: how often, and how many milliseconds together.
    waited_names: dict[str, tuple[int, int]] = {}


def _nothing(*_columns: Any) -> None:
    return None


_ROLLUP = Statement("rollup", (_DIRECTORY / "rollup.sql").read_text(), RolledUp, prepared=False)
_START = Statement("start_rollup", (_DIRECTORY / "start_rollup.sql").read_text(), _nothing, prepared=False)
_ADD = Statement("add_tallies", (_DIRECTORY / "add_usage.sql").read_text(), _nothing, prepared=False)


def rollup() -> Operation[int]:
    """Tells how many events were counted."""
    yield _START, []
    events = 0
    rolled_up: RolledUp
    while True:
        (rolled_up,) = yield _ROLLUP, [TRANSACTIONS_AT_ONCE]
        events += rolled_up.events
        if not rolled_up.more:
            return events


def add_tallies(tallies: list[Tally]) -> Operation[None]:
    yield _ADD, [msgspec.json.encode(tallies).decode()]
