"""What keeps the lock table tidy: the sweep of leases that ran out, and the removal of what nobody needs.

Nothing here decides whether a lock is free. Leases are over by the clock; the sweep records and clears them.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import msgspec

from locks.engine.handing_on import free_sessions, settle_names
from locks.engine.operations import count_live
from locks.engine.outcomes import LockName
from locks.engine.rounds import Operation
from locks.engine.statements import Statement

# Large enough to keep up, small enough that an acquire of a name in the batch waits for milliseconds only.
SWEEP_BATCH = 1000
FORGET_BATCH = 200

_DIRECTORY = Path(__file__).parent / "sql"

Row = TypeVar("Row")


class Swept(msgspec.Struct):
    """What a batch was, and the locks that settle.sql has to see to: somebody is in line, or had a session."""

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
STALE_COUNTS = _load("stale_counts", _only)
FORGET_IDLE = _load("forget_idle", Forgotten)
SWEEP_SESSIONS = _load("sweep_sessions", SweptSessions)
SETTLE_SESSIONS = _load("settle_sessions", _only)
FORGET_SESSIONS = _load("forget_sessions", _only)
FORGET_WAITERS = _load("forget_waiters", _only)


def sweep(*, batch: int = SWEEP_BATCH) -> Operation[int]:
    """Ends every lease that has run out, in one commit for each batch, and tells how many there were."""
    expired = 0
    swept: Swept
    while True:
        (swept,) = yield SWEEP, [batch]
        expired += swept.expired
        unsettled = [LockName(space, name) for space, name in zip(swept.spaces or (), swept.names or (), strict=True)]
        expired += yield from settle_names(unsettled)
        if swept.found < batch:
            return expired


def sweep_sessions(*, batch: int = SWEEP_BATCH) -> Operation[int]:
    """Frees what was tied to sessions that are over, and tells how many there were. Each session's locks end in one
    commit."""
    ended = 0
    swept: SweptSessions
    while True:
        (swept,) = yield SWEEP_SESSIONS, [batch]
        for session_id in swept.over:
            yield from free_sessions([session_id])
        settled: int = 0
        if swept.over:
            (settled,) = yield SETTLE_SESSIONS, [swept.over]
        ended += settled
        # Sessions that are over and could not be seen to now keep their timers; the next sweep finds them.
        if swept.found < batch or not settled:
            return ended


def recount_stale() -> Operation[int]:
    """Counts the spaces that nobody uses any more but that had live locks when they were counted last."""
    spaces = yield STALE_COUNTS, []
    if spaces:
        yield from count_live(spaces)
    return len(spaces)


def forget_idle_locks(*, days: int) -> Operation[int]:
    """Removes the rows of names that have been free for so many days."""
    removed, after = 0, 0
    forgotten: Forgotten
    while True:
        (forgotten,) = yield FORGET_IDLE, [after, days, FORGET_BATCH]
        removed += forgotten.removed
        if forgotten.reached is None:
            return removed
        after = forgotten.reached


def forget_sessions(*, days: int) -> Operation[None]:
    yield FORGET_SESSIONS, [days]


def forget_waiters() -> Operation[None]:
    yield FORGET_WAITERS, []
