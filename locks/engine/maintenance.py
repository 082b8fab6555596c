"""What keeps the lock table tidy: the sweep of leases that ran out, and the removal of what nobody needs.

Nothing here decides whether a lock is free. Leases are over by the clock; the sweep records and clears them.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import msgspec

from locks.engine import requests
from locks.engine.handover import end_and_hand_over_names, end_session_and_hand_over
from locks.engine.operations import count_live
from locks.engine.results import LockKey
from locks.engine.retry import Operation
from locks.engine.statements import Statement
from locks.engine.verdicts import Verdict

# Large enough to keep up, small enough that an acquire of a name in the batch waits for milliseconds only.
SWEEP_BATCH = 1000
FORGET_BATCH = 200

_DIRECTORY = Path(__file__).parent / "sql"

Row = TypeVar("Row")


class Swept(msgspec.Struct):
    """What a batch was, and the locks that end_and_hand_over.sql has to see to: somebody is in line, or had a session."""

    found: int
    expired: int
    spaces: list[int] | None
    names: list[str] | None


class SweptSessions(msgspec.Struct):
    found: int
    over: list[UUID]


class Forgotten(msgspec.Struct):
    removed: int
    reached: int | None


def _load(name: str, row: Callable[..., Row]) -> Statement[Row]:
    # Planned with its values, once a second: a generic plan might not use the index on the timer.
    return Statement(name, (_DIRECTORY / f"{name}.sql").read_text(), row, prepared=False)


def _only(column: Any = None) -> Any:
    return column


SWEEP = _load("sweep", Swept)
STALE_COUNTS = _load("stale_usage", _only)
FORGET_IDLE = _load("purge_idle_locks", Forgotten)
SWEEP_SESSIONS = _load("sweep_sessions", SweptSessions)
FORGET_SESSIONS = _load("purge_sessions", _only)
FORGET_WAITERS = _load("purge_waiters", _only)


def sweep(*, batch: int = SWEEP_BATCH) -> Operation[int]:
    """Ends every lease that has run out, in one commit for each batch, and tells how many there were."""
    expired = 0
    swept: Swept
    while True:
        (swept,) = yield SWEEP, [batch]
        expired += swept.expired
        unsettled = [LockKey(space, name) for space, name in zip(swept.spaces or (), swept.names or (), strict=True)]
        expired += yield from end_and_hand_over_names(unsettled)
        if swept.found < batch:
            return expired


def sweep_sessions(*, batch: int = SWEEP_BATCH) -> Operation[int]:
    """Sees to the sessions that are over, each in one commit with what was tied to it. Tells how many there were."""
    ended = 0
    swept: SweptSessions
    while True:
        (swept,) = yield SWEEP_SESSIONS, [batch]
        settled = 0
        for session_id in swept.over:
            row = yield from end_session_and_hand_over(
                requests.SessionRef(digest=None, channel="task", session_id=session_id)
            )
            settled += row.verdict == Verdict.ENDED
        ended += settled
        # If another sweep sees to them, it does so to the rest as well.
        if swept.found < batch or not settled:
            return ended


def recount_stale() -> Operation[int]:
    """Counts the spaces that nobody uses any more but that had live locks when they were counted last."""
    spaces = yield STALE_COUNTS, []
    if spaces:
        yield from count_live(spaces)
    return len(spaces)


def purge_idle_locks(*, days: int) -> Operation[int]:
    """Removes the rows of names that have been free for so many days."""
    removed, after = 0, 0
    forgotten: Forgotten
    while True:
        (forgotten,) = yield FORGET_IDLE, [after, days, FORGET_BATCH]
        removed += forgotten.removed
        if forgotten.reached is None:
            return removed
        after = forgotten.reached


def purge_sessions(*, days: int) -> Operation[None]:
    yield FORGET_SESSIONS, [days]


def purge_waiters() -> Operation[None]:
    yield FORGET_WAITERS, []
