"""Keeps the lock table tidy: the sweep of expired leases, and the deletion of rows that are not needed any more.

Nothing here decides whether a lock is free. Leases end by time; the sweep records and clears them.
"""

from locks.engine import requests, results, statements
from locks.engine.handover import end_session, hand_over_names
from locks.engine.operations import count_live
from locks.engine.retry import Operation
from locks.engine.verdicts import Verdict

# Large enough to keep up, small enough that an acquire of a name in the batch waits for milliseconds only.
SWEEP_BATCH = 1000
PURGE_BATCH = 200


def sweep(*, batch: int = SWEEP_BATCH) -> Operation[int]:
    """Ends all expired leases, in one commit for each batch. Returns how many there were."""
    expired = 0
    swept: results.Swept
    while True:
        (swept,) = yield statements.SWEEP, [batch]
        expired += swept.expired
        expired += yield from hand_over_names(
            results.LockKey(space, name) for space, name in zip(swept.spaces or (), swept.names or (), strict=True)
        )
        if swept.checked < batch:
            return expired


def sweep_sessions(*, batch: int = SWEEP_BATCH) -> Operation[int]:
    """Cleans up sessions that are over, each in one commit with its locks. Returns how many there were."""
    total = 0
    swept: results.SweptSessions
    while True:
        (swept,) = yield statements.SWEEP_SESSIONS, [batch]
        ended = 0
        for session_id in swept.session_ids:
            row = yield from end_session(requests.SessionRef(digest=None, channel="task", session_id=session_id))
            ended += row.verdict == Verdict.ENDED
        total += ended
        # If another sweep has ended all of these, it ends the rest too.
        if swept.checked < batch or not ended:
            return total


def recount_stale() -> Operation[int]:
    """Counts the spaces that are not used any more but had live locks when they were counted last."""
    spaces = yield statements.STALE_USAGE, []
    if spaces:
        yield from count_live(spaces)
    return len(spaces)


def count_storage() -> Operation[None]:
    """Counts names and events, in one commit for each space: a server that counts its live locks waits for one only."""
    spaces = yield statements.STORAGE_TO_COUNT, []
    for space_id in spaces:
        yield statements.COUNT_STORAGE, [space_id]


def purge_idle_locks(*, days: int, short_lived_space: int | None = None) -> Operation[int]:
    """Deletes the rows of names that have been free for so many days."""
    deleted, after = 0, 0
    purged: results.Purged
    while True:
        (purged,) = yield statements.PURGE_IDLE_LOCKS, [after, days, PURGE_BATCH, short_lived_space]
        deleted += purged.deleted
        if purged.last_id is None:
            return deleted
        after = purged.last_id


def purge_sessions(*, days: int) -> Operation[None]:
    yield statements.PURGE_SESSIONS, [days]


def purge_waiters() -> Operation[None]:
    yield statements.PURGE_WAITERS, []
