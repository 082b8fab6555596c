"""The engine's verbs, written without a database connection.

Each verb is a generator that yields the statements it needs and is sent their rows; `execution` drives it, blocking
or not. So there is one definition of every operation, and a batch of one is the same code as a batch of a thousand.
"""

from collections.abc import Generator, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

import msgspec

from locks.engine import outcomes, requests, statements
from locks.engine.statements import Statement
from locks.engine.verdicts import Verdict

# Undecided requests have met others at a new name; each round decides at least one of those. More rounds than
# this means that something else is wrong.
MOST_ROUNDS = 100

Answer = TypeVar("Answer")
Operation: TypeAlias = Generator[tuple[Statement[Any], list[Any]], list[Any], Answer]

_encode = msgspec.json.Encoder().encode


class Undecided(Exception):
    """The rounds ran out. Nothing was changed for the requests that are left."""


class _InBatch(Protocol):
    @property
    def n(self) -> int: ...
    @property
    def verdict(self) -> str: ...


Outcome = TypeVar("Outcome", bound=_InBatch)


def once(statement: Statement[Outcome], asked: Sequence[requests.Caller]) -> Operation[list[Outcome]]:
    """One round: an outcome for each request, in their order. Where it is `again`, nothing was changed."""
    for place, request in enumerate(asked):
        request.n = place
    return (yield statement, [_encode(asked).decode()])


def _batch(statement: Statement[Outcome], asked: Sequence[requests.Caller]) -> Operation[list[Outcome]]:
    """Runs the batch, and those of it that are undecided again, until every request has its outcome."""
    answers: dict[int, Outcome] = {}
    pending = list(range(len(asked)))
    for _round in range(MOST_ROUNDS):
        rows = yield from once(statement, [asked[index] for index in pending])
        undecided = []
        for row in rows:
            if row.verdict == Verdict.AGAIN:
                undecided.append(pending[row.n])
            else:
                answers[pending[row.n]] = row
        if not undecided:
            return [answers[index] for index in range(len(asked))]
        pending = undecided
    raise Undecided(statement.name)


def acquire(asked: Sequence[requests.Acquire]) -> Operation[list[outcomes.Acquired]]:
    return _batch(statements.ACQUIRE, asked)


def renew(asked: Sequence[requests.Renew]) -> Operation[list[outcomes.Renewed]]:
    return _batch(statements.RENEW, asked)


def release(asked: Sequence[requests.Release]) -> Operation[list[outcomes.Released]]:
    return _batch(statements.RELEASE, asked)


def force_release(asked: Sequence[requests.ForceRelease]) -> Operation[list[outcomes.ForceReleased]]:
    return _batch(statements.FORCE_RELEASE, asked)


def inspect(asked: Sequence[requests.Inspect]) -> Operation[list[outcomes.Inspected]]:
    return _batch(statements.INSPECT, asked)


def claim_next(asked: requests.ClaimNext) -> Operation[outcomes.Claimed]:
    parameters = [_encode(asked).decode()]
    for _attempt in range(MOST_ROUNDS):
        (row,) = yield statements.CLAIM_NEXT, parameters
        if row.verdict == Verdict.UNDER_WAY:
            yield statements.AWAIT_KEY, [f"{asked.digest}{asked.idempotency_digest}"]
            continue
        if row.verdict != Verdict.AGAIN:
            return row  # type: ignore[no-any-return]
        if row.name is None:
            # Others are after the same new names: with rows in place, each of us can pass over what is taken.
            yield statements.SEED, parameters
        else:
            # Whoever is working on the last open names will take them or leave them.
            yield statements.AWAIT, [row.space_id, row.name]
    raise Undecided(statements.CLAIM_NEXT.name)


def acquire_all(asked: requests.AcquireAll) -> Operation[list[outcomes.AcquiredTogether]]:
    parameters = [_encode(asked).decode()]
    for _attempt in range(MOST_ROUNDS):
        rows = yield statements.ACQUIRE_ALL, parameters
        if rows[0].verdict != Verdict.AGAIN:
            return rows
    raise Undecided(statements.ACQUIRE_ALL.name)


def listing(asked: requests.Listing) -> Operation[list[outcomes.Listed]]:
    if asked.sort == "name":
        return (
            yield (
                statements.LIST_BY_NAME,
                [asked.digest, asked.prefix, asked.owner, asked.status, asked.limit, asked.after_name],
            )
        )
    return (
        yield statements.LIST_BY_TIME,
        [asked.digest, asked.prefix, asked.owner, asked.sort, asked.limit, asked.after_name,
         asked.after_time or "-infinity"],
    )  # fmt: skip


def count_live(space_ids: Sequence[int]) -> Operation[None]:
    yield statements.COUNT_LIVE, [list(space_ids)]
