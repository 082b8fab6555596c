"""The engine's operations, written without a database connection.

Each is a generator that yields the statements it needs and is sent their rows; `execution` runs it, blocking or not. So
there is one definition of every operation, and a batch of one is the same code as a batch of a thousand. A lock that
has to be handed over first (requests may wait for it, or its session may be over) is handed over within the operation.
"""

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar, cast
from uuid import UUID

from locks.engine import requests, results, statements
from locks.engine.handover import end_and_hand_over, handover_request
from locks.engine.handover import end_session as end_session  # noqa: PLC0414 -- one of the operations
from locks.engine.retry import MAX_ROUNDS, RetriesExhausted, encode
from locks.engine.retry import Operation as Operation  # noqa: PLC0414 -- the type of the operations
from locks.engine.statements import Statement
from locks.engine.verdicts import Verdict


class _BatchResult(Protocol):
    @property
    def index(self) -> int: ...
    @property
    def verdict(self) -> str: ...


Result = TypeVar("Result", bound=_BatchResult)


def run_round(statement: Statement[Result], batch: Sequence[requests.Caller]) -> Operation[list[Result]]:
    """One statement, and a result for each request in their order. If the verdict is `retry`, nothing was changed and
    the request has to be run again; if it is `needs_handover`, `resolve_handovers` has to be run first."""
    for index, request in enumerate(batch):
        request.index = index
    return (yield statement, [encode(batch)])


def resolve_handovers(statement: Statement[Result], batch: Sequence[Any]) -> Operation[list[Any]]:
    """For the requests of a round whose verdict was `needs_handover`, in one statement more: ends the leases that are
    over and hands the locks over. A release is done by that and has its result; the other requests get None and have to
    be run again."""
    if statement is statements.RELEASE:
        ended = yield from end_and_hand_over([_release_and_hand_over(request) for request in batch])
        return [_released(row) for row in ended]
    distinct = {(request.digest, request.name): request for request in reversed(batch)}
    yield from end_and_hand_over([handover_request(request, request.name) for request in distinct.values()])
    return [None] * len(batch)


def _release_and_hand_over(request: requests.Release) -> requests.EndAndHandOver:
    return requests.EndAndHandOver(
        digest=request.digest, request_id=request.request_id, channel=request.channel, address=request.address,
        name=request.name, lease_id=request.lease_id, end_mode="release",
    )  # fmt: skip


def _released(row: results.EndedAndHandedOver) -> results.Released:
    assert row.lease_id is not None
    return results.Released(
        index=row.index, verdict=row.verdict, name=row.name, lease_id=row.lease_id, fencing_token=row.fencing_token,
        now=row.now, space_id=row.space_id, requests_per_second=row.requests_per_second,
    )  # fmt: skip


def run_batch(statement: Statement[Result], batch: Sequence[requests.Caller]) -> Operation[list[Result]]:
    """Runs rounds until every request has its result."""
    decided: dict[int, Result] = {}
    pending = list(range(len(batch)))
    for _round in range(MAX_ROUNDS):
        rows = yield from run_round(statement, [batch[index] for index in pending])
        to_retry, handovers = [], []
        for row in rows:
            if row.verdict == Verdict.RETRY:
                to_retry.append(pending[row.index])
            elif row.verdict == Verdict.UNGUARDED:
                index = pending[row.index]
                request = cast(requests.Acquire, batch[index])
                request.is_alone = True
                (decided[index],) = yield from run_batch(statement, [request])
            elif row.verdict == Verdict.NEEDS_HANDOVER:
                handovers.append(pending[row.index])
            else:
                decided[pending[row.index]] = row
        if handovers:
            resolved = yield from resolve_handovers(statement, [batch[index] for index in handovers])
            for index, result in zip(handovers, resolved, strict=True):
                if result is None:
                    to_retry.append(index)
                else:
                    decided[index] = result
        if not to_retry:
            return [decided[index] for index in range(len(batch))]
        pending = to_retry
    raise RetriesExhausted(statement.name)


def acquire(batch: Sequence[requests.Acquire]) -> Operation[list[results.Acquired]]:
    if len(batch) == 1:
        batch[0].is_alone = True
    return run_batch(statements.ACQUIRE, batch)


def renew(batch: Sequence[requests.Renew]) -> Operation[list[results.Renewed]]:
    return run_batch(statements.RENEW, batch)


def release(batch: Sequence[requests.Release]) -> Operation[list[results.Released]]:
    return run_batch(statements.RELEASE, batch)


def force_release(batch: Sequence[requests.ForceRelease]) -> Operation[list[results.ForceReleased]]:
    return end_and_hand_over(batch)


def inspect(batch: Sequence[requests.Inspect]) -> Operation[list[results.Inspected]]:
    return run_batch(statements.INSPECT, batch)


def check(request: requests.Check) -> Operation[list[results.Checked]]:
    return (yield statements.CHECK, [encode(request)])


def set_acl(request: requests.SetAcl) -> Operation[results.AclSet]:
    (row,) = yield statements.SET_ACL, [encode(request)]
    return row  # type: ignore[no-any-return]  # rows are untyped


def change_reservation(request: requests.ChangeReservation) -> Operation[results.ReservationChanged]:
    (row,) = yield statements.CHANGE_RESERVATION, [encode(request)]
    return row  # type: ignore[no-any-return]  # rows are untyped


def claim_next(request: requests.ClaimNext) -> Operation[results.Claimed]:
    parameters = [encode(request)]
    row: results.Claimed
    for _round in range(MAX_ROUNDS):
        (row,) = yield statements.CLAIM_NEXT, parameters
        if row.verdict == Verdict.IN_PROGRESS:
            yield statements.WAIT_FOR_KEY, [f"{request.digest}{request.idempotency_digest}"]
        elif row.verdict == Verdict.NEEDS_HANDOVER:
            yield from end_and_hand_over([handover_request(request, name) for name in row.needs_handover or ()])
        elif row.verdict != Verdict.RETRY:
            return row
        elif row.name is None:
            # Other requests want the same new names: with rows in place, each can skip those that are taken.
            yield statements.INSERT_MISSING, parameters
        else:
            # The rows of all free names are locked, and may be free afterwards.
            yield statements.WAIT_FOR_ROW, [row.space_id, row.name]
    raise RetriesExhausted(statements.CLAIM_NEXT.name)


def acquire_all(request: requests.AcquireAll) -> Operation[list[results.AcquireAllRow]]:
    parameters = [encode(request)]
    rows: list[results.AcquireAllRow]
    for _round in range(MAX_ROUNDS):
        rows = yield statements.ACQUIRE_ALL, parameters
        if rows[0].verdict == Verdict.NEEDS_HANDOVER:
            names = [row.name for row in rows if row.is_blocking or row.is_overlapped]
            yield from end_and_hand_over([handover_request(request, name) for name in names])
        elif rows[0].verdict != Verdict.RETRY:
            return rows
    raise RetriesExhausted(statements.ACQUIRE_ALL.name)


def listing(request: requests.Listing) -> Operation[list[results.Listed]]:
    return (
        yield statements.LIST_LOCKS,
        [request.digest, request.prefix, request.owner, request.status, request.limit, request.after_name,
         request.after_time or "-infinity", request.sort,
         None if request.visible_run_names is None else list(request.visible_run_names)],
    )  # fmt: skip


def count_live(space_ids: Sequence[int]) -> Operation[None]:
    yield statements.COUNT_LIVE, [list(space_ids)]


def open_session(request: requests.OpenSession) -> Operation[results.SessionRow]:
    (row,) = yield statements.OPEN_SESSION, [encode(request)]
    return row  # type: ignore[no-any-return]  # rows are untyped


def keep_alive(batch: Sequence[requests.SessionRef]) -> Operation[list[results.KeptAlive]]:
    return run_batch(statements.KEEP_ALIVE, batch)


def sessions(*, digest: str, session_id: UUID | None = None, limit: int = 1000) -> Operation[list[results.SessionRow]]:
    """The session with this id, active or not; without an id, all active sessions of the token."""
    return (yield statements.LIST_SESSIONS, [digest, session_id, limit])
