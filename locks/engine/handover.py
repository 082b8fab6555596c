"""Ending what is over and handing it on: what the plain statements dequeue to end_and_hand_over.sql."""

from collections.abc import Iterable, Sequence
from uuid import UUID

import msgspec

from locks.engine import requests, results, statements
from locks.engine.retry import MAX_ROUNDS, Operation, RetriesExhausted, encode
from locks.engine.verdicts import Verdict


def end_and_hand_over(asked: Sequence[requests.EndAndHandOver]) -> Operation[list[results.EndedAndHandedOver]]:
    """In one statement, and once more for the locks whose line somebody has joined at that moment."""
    answers: dict[int, results.EndedAndHandedOver] = {}
    pending = dict(enumerate(asked))
    for _round in range(MAX_ROUNDS):
        for index, one in pending.items():
            one.n = index
        rows: list[results.EndedAndHandedOver] = yield statements.END_AND_HAND_OVER, [encode(list(pending.values()))]
        again: dict[int, requests.EndAndHandOver] = {}
        for row in rows:
            if row.verdict == Verdict.RETRY:
                again[row.n] = pending[row.n]
                continue
            answers.setdefault(row.n, row)
            if row.raced and row.name in row.raced:
                # It has ended as it was to end; what is left to do is to find out who is next.
                again[row.n] = _only_look(pending[row.n])
        if not again:
            return [answers[index] for index in range(len(asked))]
        pending = again
    raise RetriesExhausted(statements.END_AND_HAND_OVER.name)


def end_and_hand_over_names(names: Iterable[results.LockKey]) -> Operation[int]:
    """By nobody in particular. Tells how many there were."""
    asked = [
        requests.EndAndHandOver(digest=None, channel="task", space_id=name.space_id, name=name.name)
        for name in sorted(names, key=lambda name: (name.space_id, name.name))
    ]
    if asked:
        yield from end_and_hand_over(asked)
    return len(asked)


def _only_look(one: requests.EndAndHandOver) -> requests.EndAndHandOver:
    return requests.EndAndHandOver(
        digest=one.digest, channel=one.channel, request_id=one.request_id, name=one.name, space_id=one.space_id
    )


def dequeue(waiters: Sequence[int], *, server_id: UUID | None = None) -> Operation[list[results.Dequeued]]:
    """Out of the line, at that server or at any. Whoever had been handed a lease in the meantime gives it on."""
    left: list[results.Dequeued] = []
    pending = list(waiters)
    for _round in range(MAX_ROUNDS):
        if not pending:
            break
        rows: list[results.Dequeued] = yield statements.DEQUEUE, [pending, server_id]
        left += [row for row in rows if row.verdict != Verdict.RETRY]
        being_changed = [row for row in rows if row.verdict == Verdict.RETRY]
        for row in being_changed:
            # Whoever changes the place has the lock.
            yield statements.WAIT_FOR_ROW, [row.space_id, row.name]
        pending = [row.waiter_id for row in being_changed]
    else:
        raise RetriesExhausted(statements.DEQUEUE.name)
    handed = [
        requests.EndAndHandOver(
            digest=None, space_id=row.space_id, name=row.name, lease_id=row.lease_id, ending="leave"
        )
        for row in left
        if row.lease_id is not None
    ]
    if handed:
        yield from end_and_hand_over(handed)
    return left


def end_session_and_hand_over(asked: requests.SessionRef) -> Operation[results.SessionEnded]:
    """Ends a session for its token, or, where nobody asks, sees to one that is over: with all that is tied to it."""
    request = requests.EndAndHandOver(**msgspec.structs.asdict(asked), ending="session")
    row: results.EndedAndHandedOver
    (row,) = yield statements.END_AND_HAND_OVER, [encode([request])]
    if row.raced and row.space_id is not None:
        yield from end_and_hand_over_names(results.LockKey(row.space_id, name) for name in row.raced)
    return results.SessionEnded(row.verdict, asked.session_id, row.now, row.space_id, row.requests_per_second)
