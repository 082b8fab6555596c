"""Ends leases, hands locks over to waiting requests, and keeps the queue of requests that wait.

Three times limit how long a lock can stay with a waiter that has disappeared with its server process. The process
counts as present for HEARTBEAT_TIMEOUT_SECONDS after its last heartbeat; a lease handed over just before that
expires after CLAIM_TIMEOUT_SECONDS; then the next waiter is found by the check that its own process makes every
HEARTBEAT_SECONDS, if nothing comes before. That is 0.9 + 0.7 + 0.2 = 1.8 seconds, which leaves 0.2 of the promised
two for the statements. A live process may stall for 0.7 seconds at any time: HEARTBEAT_TIMEOUT_SECONDS less a
heartbeat, or CLAIM_TIMEOUT_SECONDS. Of many locks that one statement hands over, each has a millisecond more for
each of the others.
"""

from collections.abc import Iterable, Sequence
from uuid import UUID

import msgspec

from locks.engine import requests, results, statements
from locks.engine.retry import MAX_ROUNDS, Operation, RetriesExhausted, encode
from locks.engine.verdicts import Verdict

# hand_to_first_waiter.sql and end_and_hand_over.sql have the first two as literals; a test compares them.
HEARTBEAT_TIMEOUT_SECONDS = 0.9
CLAIM_TIMEOUT_SECONDS = 0.7
HEARTBEAT_SECONDS = 0.2


def end_and_hand_over(batch: Sequence[requests.EndAndHandOver]) -> Operation[list[results.EndedAndHandedOver]]:
    """One statement, and others for locks that were bound meanwhile to a session that is newer and for names of
    namespaces. Returns results in batch order."""
    rows = yield from _end_and_hand_over(batch)
    yield from _serve_spaces(rows, [request.name for request in batch])
    return rows


def _end_and_hand_over(batch: Sequence[requests.EndAndHandOver]) -> Operation[list[results.EndedAndHandedOver]]:
    decided: dict[int, results.EndedAndHandedOver] = {}
    pending = dict(enumerate(batch))
    for _round in range(MAX_ROUNDS):
        for index, request in pending.items():
            request.index = index
        rows: list[results.EndedAndHandedOver] = yield statements.END_AND_HAND_OVER, [encode(list(pending.values()))]
        to_retry: dict[int, requests.EndAndHandOver] = {}
        for row in rows:
            if row.verdict == Verdict.RETRY:
                to_retry[row.index] = pending[row.index]
                continue
            decided[row.index] = row
        if not to_retry:
            return [decided[index] for index in range(len(batch))]
        pending = to_retry
    raise RetriesExhausted(statements.END_AND_HAND_OVER.name)


def handover_request(request: requests.Caller, name: str) -> requests.EndAndHandOver:
    """Ends the lease of the name only if it is over, and hands the lock over."""
    return requests.EndAndHandOver(
        digest=request.digest, channel=request.channel, request_id=request.request_id, name=name,
        space_id=request.space_id if isinstance(request, requests.Reserve) else None,
    )  # fmt: skip


def _serve_spaces(rows: Iterable[results.EndedAndHandedOver], names: Sequence[str] = ()) -> Operation[None]:
    for space_id in {space_id for row in rows for space_id in row.spaces_to_serve or ()}:
        yield from serve_namespaces(space_id, names)


def serve_namespaces(space_id: int, names: Sequence[str] = ()) -> Operation[None]:
    """Hands over names of namespaces whose turn it is. Leases that are over and overlap with them, or with the given
    names, are ended before that."""
    keys: list[results.NamespaceHandover] = yield statements.NAMESPACE_HANDOVERS, [space_id, list(names)]
    # Statements of their own, since the second has to see what the first has changed.
    for serves_queue in (False, True):
        batch = [
            requests.EndAndHandOver(
                digest=None, channel="task", space_id=space_id, name=key.name, serves_queue=serves_queue
            )
            for key in keys
            if key.serves_queue == serves_queue
        ]
        if batch:
            yield from _end_and_hand_over(batch)


def hand_over_names(keys: Iterable[results.LockKey]) -> Operation[int]:
    """Ends the leases of these names that are over, and hands the locks over. Returns the number of names."""
    batch = [
        requests.EndAndHandOver(digest=None, channel="task", space_id=key.space_id, name=key.name)
        for key in sorted(keys, key=lambda key: (key.space_id, key.name))
    ]
    if batch:
        yield from end_and_hand_over(batch)
    return len(batch)


def end_session(request: requests.SessionRef) -> Operation[results.SessionEnded]:
    """Ends a session for its token or, without a token, cleans up one that is over: with all locks bound to it."""
    session_end = requests.EndAndHandOver(**msgspec.structs.asdict(request), end_mode="session")
    row: results.EndedAndHandedOver
    (row,) = yield statements.END_AND_HAND_OVER, [encode([session_end])]
    yield from _serve_spaces([row])
    return results.SessionEnded(row.verdict, request.session_id, row.now, row.space_id, row.requests_per_second)


def end_sessions(batch: Sequence[requests.EndAndHandOver]) -> Operation[list[results.EndedAndHandedOver]]:
    """Ends sessions for an actor that was authorised before, each with a reason and all locks bound to it, in one
    statement. Returns results in batch order."""
    for index, request in enumerate(batch):
        request.index = index
    return (yield statements.END_AND_HAND_OVER, [encode(batch)])


def enqueue(batch: Sequence[requests.Enqueue]) -> Operation[list[results.Enqueued]]:
    """A place in the queue for each. If the verdict is `retry`, acquire has the answer; if it is `row_locked`, the
    request has to come back with its `waiter_id`; if the lock `is_free`, it has to be handed over."""
    for index, request in enumerate(batch):
        request.index = index
    rows: list[results.Enqueued] = yield statements.ENQUEUE, [encode(batch)]
    missing = [batch[row.index] for row in rows if row.verdict == Verdict.ROW_MISSING]
    if not missing:
        return rows
    for request in missing:
        yield statements.INSERT_MISSING, [encode({"digest": request.digest, "names": [request.name]})]
    inserted: list[results.Enqueued] = yield statements.ENQUEUE, [encode(missing)]
    decided = [row for row in rows if row.verdict != Verdict.ROW_MISSING]
    return sorted(decided + inserted, key=lambda row: row.index)


def dequeue(waiters: Sequence[int], *, server_id: UUID | None = None) -> Operation[list[results.Dequeued]]:
    """Removes waiters of that server process, or of any. A lease that a waiter was handed meanwhile is returned."""
    removed: list[results.Dequeued] = []
    pending = list(waiters)
    for _round in range(MAX_ROUNDS):
        if not pending:
            break
        rows: list[results.Dequeued] = yield statements.DEQUEUE, [pending, server_id]
        removed += [row for row in rows if row.verdict != Verdict.RETRY]
        locked = [row for row in rows if row.verdict == Verdict.RETRY]
        for row in locked:
            # A statement that changes a waiter has locked the lock of its name.
            yield statements.WAIT_FOR_ROW, [row.space_id, row.name]
        pending = [row.waiter_id for row in locked]
    else:
        raise RetriesExhausted(statements.DEQUEUE.name)
    returned = [
        requests.EndAndHandOver(
            digest=None, space_id=row.space_id, name=row.name, lease_id=row.lease_id, end_mode="leave"
        )
        for row in removed
        if row.lease_id is not None
    ]
    if returned:
        yield from end_and_hand_over(returned)
    return removed


def server_heartbeat(server_id: UUID) -> Operation[results.HeartbeatResult]:
    """Sent before the first request waits at the process, and every HEARTBEAT_SECONDS from then on."""
    (row,) = yield statements.SERVER_HEARTBEAT, [server_id]
    return row  # type: ignore[no-any-return]  # rows are untyped


def claim_handovers(server_id: UUID) -> Operation[list[results.Handover]]:
    return (yield statements.CLAIM_HANDOVER, [server_id])


def hand_over_free_names(server_id: UUID) -> Operation[int]:
    """Hands over the locks that requests at this server process wait for and that became free by time alone. The sweep
    does the same for all, but less often."""
    free: list[results.FreeName] = yield statements.FREE_NAMES_WITH_WAITERS, [server_id]
    for key in free:
        if key.name is None:
            yield from serve_namespaces(key.space_id)
    return (yield from hand_over_names(results.LockKey(key.space_id, key.name) for key in free if key.name is not None))


def waiters_of(server_id: UUID) -> Operation[list[int]]:
    return (yield statements.WAITERS_OF, [server_id])


def end_backends(process_ids: Sequence[int]) -> Operation[None]:
    """Ends backends of earlier connections for the same purpose, which did not answer."""
    yield statements.END_BACKENDS, [list(process_ids)]


def delete_server(server_id: UUID) -> Operation[None]:
    """Removes its waiters from every queue, then the server process."""
    waiters = yield statements.WAITERS_OF, [server_id]
    yield from dequeue(waiters, server_id=server_id)
    yield statements.DELETE_SERVER, [server_id]
