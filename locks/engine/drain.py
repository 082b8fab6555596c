"""Waits for statements that began before a change.

The engine reads permissions without locking them, so an acquire that began before a token was revoked may commit after
it. A caller that must release those leases too waits here first.
"""

import time
from datetime import datetime

from locks.engine import statements
from locks.engine.execution import run
from locks.engine.retry import Operation

# A statement of the engine takes milliseconds. One that takes longer is a report, which acquires no lease.
MAX_WAIT_SECONDS = 2.0
POLL_SECONDS = 0.02


def wait_for_statements(since: datetime, *, max_seconds: float = MAX_WAIT_SECONDS) -> None:
    """Returns when no statement that began before `since` is running, or after so many seconds."""
    deadline = time.monotonic() + max_seconds
    while run(_count_in_flight(since)) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)


def _count_in_flight(since: datetime) -> Operation[int]:
    (count,) = yield statements.COUNT_IN_FLIGHT, [since]
    return count  # type: ignore[no-any-return]  # rows are untyped
