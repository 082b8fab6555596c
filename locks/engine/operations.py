"""The engine's verbs, written without a database connection.

Each verb is a generator that yields the statements it needs and is sent their rows; `execution` drives it, blocking
or not. So there is one definition of every operation, and a batch of one is the same code as a batch of a thousand.
Where a lock has to be settled first (somebody is in line, or its session may be over) the verb does that and goes on.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar
from uuid import UUID

from locks.engine import requests, results, statements
from locks.engine.handover import end_and_hand_over, end_session_and_hand_over
from locks.engine.retry import MAX_ROUNDS, encode
from locks.engine.retry import Operation as Operation  # noqa: PLC0414 -- whoever has verbs has these
from locks.engine.retry import RetriesExhausted as RetriesExhausted  # noqa: PLC0414
from locks.engine.statements import Statement
from locks.engine.verdicts import Verdict


class _InBatch(Protocol):
    @property
    def n(self) -> int: ...
    @property
    def verdict(self) -> str: ...


Outcome = TypeVar("Outcome", bound=_InBatch)
Asked = TypeVar("Asked", bound=requests.Caller)


def run_round(statement: Statement[Outcome], asked: Sequence[requests.Caller]) -> Operation[list[Outcome]]:
    """One round: an outcome for each request, in their order. Where it is `again` or `end_and_hand_over`, nothing was changed."""
    for place, request in enumerate(asked):
        request.n = place
    return (yield statement, [encode(asked)])


def _batch(
    statement: Statement[Outcome],
    asked: Sequence[Asked],
    *,
    ending: Callable[[Asked], requests.EndAndHandOver] | None = None,
    ended: Callable[[results.EndedAndHandedOver], Outcome] | None = None,
) -> Operation[list[Outcome]]:
    """Runs the batch, and those of it that are undecided again, until every request has its outcome. What has to be
    settled first is settled and goes again, or, where the request is to end a lease, is ended by that."""
    answers: dict[int, Outcome] = {}
    pending = list(range(len(asked)))
    for _round in range(MAX_ROUNDS):
        rows = yield from run_round(statement, [asked[index] for index in pending])
        undecided, unsettled = [], []
        for row in rows:
            if row.verdict == Verdict.RETRY:
                undecided.append(pending[row.n])
            elif row.verdict == Verdict.NEEDS_HANDOVER:
                unsettled.append(pending[row.n])
            else:
                answers[pending[row.n]] = row
        if unsettled and ending is not None and ended is not None:
            settled = yield from end_and_hand_over([ending(asked[index]) for index in unsettled])
            for index, done in zip(unsettled, settled, strict=True):
                answers[index] = ended(done)
        elif unsettled:
            yield from _settle_first(asked[index] for index in unsettled)
            undecided += unsettled
        if not undecided:
            return [answers[index] for index in range(len(asked))]
        pending = undecided
    raise RetriesExhausted(statement.name)


def _settle_first(asked: Iterable[Any]) -> Operation[None]:
    """Each name run_round, for whoever is the first to ask."""
    first = {(one.digest, one.name): one for one in reversed(list(asked))}
    yield from end_and_hand_over(
        [
            requests.EndAndHandOver(digest=one.digest, request_id=one.request_id, channel=one.channel, name=one.name)
            for one in first.values()
        ]
    )


def _settle_first_of(asked: requests.ClaimNext | requests.AcquireAll, names: Iterable[str]) -> Operation[None]:
    yield from end_and_hand_over(
        [
            requests.EndAndHandOver(digest=asked.digest, request_id=asked.request_id, channel=asked.channel, name=name)
            for name in names
        ]
    )


def acquire(asked: Sequence[requests.Acquire]) -> Operation[list[results.Acquired]]:
    return _batch(statements.ACQUIRE, asked)


def renew(asked: Sequence[requests.Renew]) -> Operation[list[results.Renewed]]:
    return _batch(statements.RENEW, asked)


def release(asked: Sequence[requests.Release]) -> Operation[list[results.Released]]:
    return _batch(statements.RELEASE, asked, ending=_release_of, ended=_released)


def _release_of(asked: requests.Release) -> requests.EndAndHandOver:
    return requests.EndAndHandOver(
        digest=asked.digest, request_id=asked.request_id, channel=asked.channel, address=asked.address,
        name=asked.name, lease_id=asked.lease_id, ending="release",
    )  # fmt: skip


def _released(done: results.EndedAndHandedOver) -> results.Released:
    assert done.lease_id is not None
    return results.Released(
        n=done.n, verdict=done.verdict, name=done.name, lease_id=done.lease_id, fencing_token=done.fencing_token,
        now=done.now, space_id=done.space_id, requests_per_second=done.requests_per_second,
    )  # fmt: skip


def force_release(asked: Sequence[requests.ForceRelease]) -> Operation[list[results.ForceReleased]]:
    return _batch(statements.FORCE_RELEASE, asked, ending=_force_of, ended=_forced)


def _force_of(asked: requests.ForceRelease) -> requests.EndAndHandOver:
    return requests.EndAndHandOver(
        digest=asked.digest, request_id=asked.request_id, channel=asked.channel, address=asked.address,
        name=asked.name, ending="force", guard=asked.guard, reason=asked.reason,
        lock_delay_seconds=asked.lock_delay_seconds, space_id=asked.space_id, actor_kind=asked.actor_kind,
        actor_id=asked.actor_id, actor_name=asked.actor_name, detail=asked.detail,
    )  # fmt: skip


def _forced(done: results.EndedAndHandedOver) -> results.ForceReleased:
    return results.ForceReleased(
        n=done.n, verdict=done.verdict, name=done.name, fencing_token=done.fencing_token, owner=done.owner,
        metadata=done.metadata, acquired_at=done.acquired_at, expires_at=done.expires_at,
        available_at=done.available_at, event_id=done.event_id, now=done.now, space_id=done.space_id,
        requests_per_second=done.requests_per_second,
    )  # fmt: skip


def inspect(asked: Sequence[requests.Inspect]) -> Operation[list[results.Inspected]]:
    return _batch(statements.INSPECT, asked)


def claim_next(asked: requests.ClaimNext) -> Operation[results.Claimed]:
    parameters = [encode(asked)]
    for _attempt in range(MAX_ROUNDS):
        (row,) = yield statements.CLAIM_NEXT, parameters
        if row.verdict == Verdict.IN_PROGRESS:
            yield statements.WAIT_FOR_KEY, [f"{asked.digest}{asked.idempotency_digest}"]
            continue
        if row.verdict == Verdict.NEEDS_HANDOVER:
            yield from _settle_first_of(asked, row.unsettled)
            continue
        if row.verdict != Verdict.RETRY:
            return row  # type: ignore[no-any-return]
        if row.name is None:
            # Others are after the same new names: with rows in place, each of us can pass over what is taken.
            yield statements.INSERT_MISSING, parameters
        else:
            # Whoever is working on the last open names will take them or leave them.
            yield statements.WAIT_FOR_ROW, [row.space_id, row.name]
    raise RetriesExhausted(statements.CLAIM_NEXT.name)


def acquire_all(asked: requests.AcquireAll) -> Operation[list[results.AcquireAllRow]]:
    parameters = [encode(asked)]
    for _attempt in range(MAX_ROUNDS):
        rows = yield statements.ACQUIRE_ALL, parameters
        if rows[0].verdict == Verdict.NEEDS_HANDOVER:
            yield from _settle_first_of(asked, [row.name for row in rows if row.blocks])
        elif rows[0].verdict != Verdict.RETRY:
            return rows
    raise RetriesExhausted(statements.ACQUIRE_ALL.name)


def listing(asked: requests.Listing) -> Operation[list[results.Listed]]:
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


def open_session(asked: requests.OpenSession) -> Operation[results.SessionRow]:
    (row,) = yield statements.OPEN_SESSION, [encode(asked)]
    return row  # type: ignore[no-any-return]


def keep_alive(asked: Sequence[requests.SessionRef]) -> Operation[list[results.KeptAlive]]:
    return _batch(statements.KEEP_ALIVE, asked)


def end_session(asked: requests.SessionRef) -> Operation[results.SessionEnded]:
    return end_session_and_hand_over(asked)


def sessions(*, digest: str, session_id: UUID | None = None, limit: int = 1000) -> Operation[list[results.SessionRow]]:
    """One of the token's, whatever has become of it, or those that live."""
    return (yield statements.LIST_SESSIONS, [digest, session_id, limit])
