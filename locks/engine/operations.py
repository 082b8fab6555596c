"""The engine's verbs, written without a database connection.

Each verb is a generator that yields the statements it needs and is sent their rows; `execution` drives it, blocking
or not. So there is one definition of every operation, and a batch of one is the same code as a batch of a thousand.
Where a lock has to be settled first (somebody is in line, or its session may be over) the verb does that and goes on.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar
from uuid import UUID

from locks.engine import outcomes, requests, statements
from locks.engine.handing_on import settle, settle_session
from locks.engine.rounds import MOST_ROUNDS, encode
from locks.engine.rounds import Operation as Operation  # noqa: PLC0414 -- whoever has verbs has these
from locks.engine.rounds import Undecided as Undecided  # noqa: PLC0414
from locks.engine.statements import Statement
from locks.engine.verdicts import Verdict


class _InBatch(Protocol):
    @property
    def n(self) -> int: ...
    @property
    def verdict(self) -> str: ...


Outcome = TypeVar("Outcome", bound=_InBatch)
Asked = TypeVar("Asked", bound=requests.Caller)


def once(statement: Statement[Outcome], asked: Sequence[requests.Caller]) -> Operation[list[Outcome]]:
    """One round: an outcome for each request, in their order. Where it is `again` or `settle`, nothing was changed."""
    for place, request in enumerate(asked):
        request.n = place
    return (yield statement, [encode(asked)])


def _batch(
    statement: Statement[Outcome],
    asked: Sequence[Asked],
    *,
    ending: Callable[[Asked], requests.Settle] | None = None,
    ended: Callable[[outcomes.Settled], Outcome] | None = None,
) -> Operation[list[Outcome]]:
    """Runs the batch, and those of it that are undecided again, until every request has its outcome. What has to be
    settled first is settled and goes again, or, where the request is to end a lease, is ended by that."""
    answers: dict[int, Outcome] = {}
    pending = list(range(len(asked)))
    for _round in range(MOST_ROUNDS):
        rows = yield from once(statement, [asked[index] for index in pending])
        undecided, unsettled = [], []
        for row in rows:
            if row.verdict == Verdict.AGAIN:
                undecided.append(pending[row.n])
            elif row.verdict == Verdict.SETTLE:
                unsettled.append(pending[row.n])
            else:
                answers[pending[row.n]] = row
        if unsettled and ending is not None and ended is not None:
            settled = yield from settle([ending(asked[index]) for index in unsettled])
            for index, done in zip(unsettled, settled, strict=True):
                answers[index] = ended(done)
        elif unsettled:
            yield from _settle_first(asked[index] for index in unsettled)
            undecided += unsettled
        if not undecided:
            return [answers[index] for index in range(len(asked))]
        pending = undecided
    raise Undecided(statement.name)


def _settle_first(asked: Iterable[Any]) -> Operation[None]:
    """Each name once, for whoever is the first to ask."""
    first = {(one.digest, one.name): one for one in reversed(list(asked))}
    yield from settle(
        [
            requests.Settle(digest=one.digest, request_id=one.request_id, channel=one.channel, name=one.name)
            for one in first.values()
        ]
    )


def _settle_first_of(asked: requests.ClaimNext | requests.AcquireAll, names: Iterable[str]) -> Operation[None]:
    yield from settle(
        [
            requests.Settle(digest=asked.digest, request_id=asked.request_id, channel=asked.channel, name=name)
            for name in names
        ]
    )


def acquire(asked: Sequence[requests.Acquire]) -> Operation[list[outcomes.Acquired]]:
    return _batch(statements.ACQUIRE, asked)


def renew(asked: Sequence[requests.Renew]) -> Operation[list[outcomes.Renewed]]:
    return _batch(statements.RENEW, asked)


def release(asked: Sequence[requests.Release]) -> Operation[list[outcomes.Released]]:
    return _batch(statements.RELEASE, asked, ending=_release_of, ended=_released)


def _release_of(asked: requests.Release) -> requests.Settle:
    return requests.Settle(
        digest=asked.digest, request_id=asked.request_id, channel=asked.channel, address=asked.address,
        name=asked.name, lease_id=asked.lease_id, ending="release",
    )  # fmt: skip


def _released(done: outcomes.Settled) -> outcomes.Released:
    assert done.lease_id is not None
    return outcomes.Released(
        n=done.n, verdict=done.verdict, name=done.name, lease_id=done.lease_id, fencing_token=done.fencing_token,
        now=done.now, space_id=done.space_id, requests_per_second=done.requests_per_second,
    )  # fmt: skip


def force_release(asked: Sequence[requests.ForceRelease]) -> Operation[list[outcomes.ForceReleased]]:
    return _batch(statements.FORCE_RELEASE, asked, ending=_force_of, ended=_forced)


def _force_of(asked: requests.ForceRelease) -> requests.Settle:
    return requests.Settle(
        digest=asked.digest, request_id=asked.request_id, channel=asked.channel, address=asked.address,
        name=asked.name, ending="force", guard=asked.guard, reason=asked.reason,
        lock_delay_seconds=asked.lock_delay_seconds, space_id=asked.space_id, actor_kind=asked.actor_kind,
        actor_id=asked.actor_id, actor_name=asked.actor_name, detail=asked.detail,
    )  # fmt: skip


def _forced(done: outcomes.Settled) -> outcomes.ForceReleased:
    return outcomes.ForceReleased(
        n=done.n, verdict=done.verdict, name=done.name, fencing_token=done.fencing_token, owner=done.owner,
        metadata=done.metadata, acquired_at=done.acquired_at, expires_at=done.expires_at,
        available_at=done.available_at, event_id=done.event_id, now=done.now, space_id=done.space_id,
        requests_per_second=done.requests_per_second,
    )  # fmt: skip


def inspect(asked: Sequence[requests.Inspect]) -> Operation[list[outcomes.Inspected]]:
    return _batch(statements.INSPECT, asked)


def claim_next(asked: requests.ClaimNext) -> Operation[outcomes.Claimed]:
    parameters = [encode(asked)]
    for _attempt in range(MOST_ROUNDS):
        (row,) = yield statements.CLAIM_NEXT, parameters
        if row.verdict == Verdict.UNDER_WAY:
            yield statements.AWAIT_KEY, [f"{asked.digest}{asked.idempotency_digest}"]
            continue
        if row.verdict == Verdict.SETTLE:
            yield from _settle_first_of(asked, row.unsettled)
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
    parameters = [encode(asked)]
    for _attempt in range(MOST_ROUNDS):
        rows = yield statements.ACQUIRE_ALL, parameters
        if rows[0].verdict == Verdict.SETTLE:
            yield from _settle_first_of(asked, [row.name for row in rows if row.blocks])
        elif rows[0].verdict != Verdict.AGAIN:
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


def open_session(asked: requests.OpenSession) -> Operation[outcomes.SessionSeen]:
    (row,) = yield statements.OPEN_SESSION, [encode(asked)]
    return row  # type: ignore[no-any-return]


def keep_alive(asked: Sequence[requests.OfSession]) -> Operation[list[outcomes.KeptAlive]]:
    return _batch(statements.KEEP_ALIVE, asked)


def end_session(asked: requests.OfSession) -> Operation[outcomes.SessionEnded]:
    return settle_session(asked)


def sessions(
    *, digest: str, session_id: UUID | None = None, limit: int = 1000
) -> Operation[list[outcomes.SessionSeen]]:
    """One of the token's, whatever has become of it, or those that live."""
    return (yield statements.LIST_SESSIONS, [digest, session_id, limit])
