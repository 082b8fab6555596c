"""Waiting for statements that began before a change.

The engine reads rights without locking them, so an acquire that began before a token was revoked may still commit
after. Whoever has to be sure that none is left waits here first.
"""

import time
from datetime import datetime
from pathlib import Path

from locks.engine.execution import run
from locks.engine.operations import Operation
from locks.engine.statements import Statement

# A statement of the engine takes milliseconds. What takes longer is somebody's report, which takes no lease.
MAX_WAIT_SECONDS = 2.0
LOOK_AGAIN_SECONDS = 0.02


def _number(column: int) -> int:
    return column


_UNDER_WAY = Statement("under_way", (Path(__file__).parent / "sql" / "count_in_flight.sql").read_text(), _number)


def _under_way(since: datetime) -> Operation[int]:
    number: int
    (number,) = yield _UNDER_WAY, [since]
    return number


def wait_for_statements(since: datetime) -> None:
    """Returns when nothing is under way that began before `since`, or after two seconds."""
    deadline = time.monotonic() + MAX_WAIT_SECONDS
    while run(_under_way(since)) and time.monotonic() < deadline:
        time.sleep(LOOK_AGAIN_SECONDS)
