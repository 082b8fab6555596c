"""Statistics by space and minute: events counted from the history, and what the servers have counted in memory."""

from pathlib import Path
from typing import Any

import msgspec

from locks.engine.operations import Operation
from locks.engine.statements import Statement

# A backlog is worked off in commits of this many transactions.
MAX_TRANSACTIONS = 100_000

_DIRECTORY = Path(__file__).parent / "sql"


class RollupResult(msgspec.Struct):
    events: int
    more: bool


class UsageCounts(msgspec.Struct, kw_only=True):
    """What a server process has counted in a space in a minute."""

    space_id: int
    minute: str
    renewed: int = 0
    refused: int = 0
    waited: int = 0
    # How many waits ended in each bucket; see `histogram`.
    waits: dict[int, int] = {}
    # Refusals of the names that were refused most.
    names: dict[str, int] = {}
    # Waits for the names that were waited for most, and their milliseconds together.
    waited_names: dict[str, tuple[int, int]] = {}


def _no_row(*_columns: Any) -> None:
    return None


_ROLLUP = Statement("rollup", (_DIRECTORY / "rollup.sql").read_text(), RollupResult, prepared=False)
_START_ROLLUP = Statement("start_rollup", (_DIRECTORY / "start_rollup.sql").read_text(), _no_row, prepared=False)
_ADD_USAGE = Statement("add_usage", (_DIRECTORY / "add_usage.sql").read_text(), _no_row, prepared=False)


def rollup() -> Operation[int]:
    """Returns how many events were counted."""
    yield _START_ROLLUP, []
    events = 0
    result: RollupResult
    while True:
        (result,) = yield _ROLLUP, [MAX_TRANSACTIONS]
        events += result.events
        if not result.more:
            return events


def add_usage(counts: list[UsageCounts]) -> Operation[None]:
    yield _ADD_USAGE, [msgspec.json.encode(counts).decode()]
