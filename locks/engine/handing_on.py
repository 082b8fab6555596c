"""Ending what is over and handing it on: what the plain statements leave to settle.sql."""

from collections.abc import Iterable, Sequence
from uuid import UUID

import msgspec

from locks.engine import outcomes, requests, statements
from locks.engine.rounds import MOST_ROUNDS, Operation, Undecided, encode
from locks.engine.verdicts import Verdict


def settle(asked: Sequence[requests.Settle]) -> Operation[list[outcomes.Settled]]:
    """In one statement, and once more for the locks whose line somebody has joined at that moment."""
    answers: dict[int, outcomes.Settled] = {}
    pending = dict(enumerate(asked))
    for _round in range(MOST_ROUNDS):
        for index, one in pending.items():
            one.n = index
        rows: list[outcomes.Settled] = yield statements.SETTLE, [encode(list(pending.values()))]
        again: dict[int, requests.Settle] = {}
        for row in rows:
            if row.verdict == Verdict.AGAIN:
                again[row.n] = pending[row.n]
                continue
            answers.setdefault(row.n, row)
            if row.raced and row.name in row.raced:
                # It has ended as it was to end; what is left to do is to find out who is next.
                again[row.n] = _only_look(pending[row.n])
        if not again:
            return [answers[index] for index in range(len(asked))]
        pending = again
    raise Undecided(statements.SETTLE.name)


def settle_names(names: Iterable[outcomes.LockName]) -> Operation[int]:
    """By nobody in particular. Tells how many there were."""
    asked = [
        requests.Settle(digest=None, channel="task", space_id=name.space_id, name=name.name)
        for name in sorted(names, key=lambda name: (name.space_id, name.name))
    ]
    if asked:
        yield from settle(asked)
    return len(asked)


def _only_look(one: requests.Settle) -> requests.Settle:
    return requests.Settle(
        digest=one.digest, channel=one.channel, request_id=one.request_id, name=one.name, space_id=one.space_id
    )


def leave(waiters: Sequence[int], *, server_id: UUID | None = None) -> Operation[list[outcomes.Left]]:
    """Out of the line, at that server or at any. Whoever had been handed a lease in the meantime gives it on."""
    left: list[outcomes.Left] = []
    pending = list(waiters)
    for _round in range(MOST_ROUNDS):
        if not pending:
            break
        rows: list[outcomes.Left] = yield statements.LEAVE_LINE, [pending, server_id]
        left += [row for row in rows if row.verdict != Verdict.AGAIN]
        being_changed = [row for row in rows if row.verdict == Verdict.AGAIN]
        for row in being_changed:
            # Whoever changes the place has the lock.
            yield statements.AWAIT, [row.space_id, row.name]
        pending = [row.waiter_id for row in being_changed]
    else:
        raise Undecided(statements.LEAVE_LINE.name)
    handed = [
        requests.Settle(digest=None, space_id=row.space_id, name=row.name, lease_id=row.lease_id, ending="leave")
        for row in left
        if row.lease_id is not None
    ]
    if handed:
        yield from settle(handed)
    return left


def settle_session(asked: requests.OfSession) -> Operation[outcomes.SessionEnded]:
    """Ends a session for its token, or, where nobody asks, sees to one that is over: with all that is tied to it."""
    request = requests.Settle(**msgspec.structs.asdict(asked), ending="session")
    row: outcomes.Settled
    (row,) = yield statements.SETTLE, [encode([request])]
    if row.raced and row.space_id is not None:
        yield from settle_names(outcomes.LockName(row.space_id, name) for name in row.raced)
    return outcomes.SessionEnded(row.verdict, asked.session_id, row.now, row.space_id, row.requests_per_second)
