"""The line of this process: a request may stand here until its turn, until its time is up, or its client has gone."""

import asyncio
import contextlib
from collections import deque
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from uuid import UUID, uuid4

import msgspec

from locks.engine import requests, results
from locks.engine.execution import Unavailable
from locks.engine.handover import dequeue, end_and_hand_over
from locks.engine.operations import acquire, acquire_all
from locks.engine.queue import delete_server, enqueue
from locks.engine.verdicts import Verdict
from locks.queue.queue_worker import QueueWorker
from locks.queue.shared_connection import SharedConnection

# So long a statement may wait for a row that somebody else is working on.
PATIENCE = "2s"
# So many requests get their places in one statement.
MAX_AT_ONCE = 200
MIN_PAUSE_SECONDS = 0.01
PAUSE_SECONDS = 0.1
# That a client has gone may have arrived without having been read: after so many turns of the event loop it is known.
TURNS_TO_NOTICE = 4

Outcome = TypeVar("Outcome")


class ClientDisconnected(Exception):
    """The client has closed its connection. The place was given up."""


class ShuttingDown(Exception):
    """The server stops. The place was given up."""


@dataclass(frozen=True, slots=True)
class WaitResult(Generic[Outcome]):
    """What came of it, how long it took, and the place in line where it gave up."""

    outcome: Outcome
    waited_ms: int
    position: int | None = None


@dataclass(slots=True)
class PendingWaiter:
    # The lease that it was handed; None if the place is gone.
    handed: "asyncio.Future[results.Handover | None]"


class WaitQueue:
    def __init__(self) -> None:
        self.server_id: UUID = uuid4()
        self._places: dict[int, PendingWaiter] = {}
        # Handed so quickly that the answer with the place was still on its way.
        self._early: dict[int, results.Handover] = {}
        self._arrivals: deque[tuple[requests.Enqueue, asyncio.Future[results.Enqueued]]] = deque()
        self._admitting: asyncio.Task[None] | None = None
        self._desk = SharedConnection(purpose="waiting, desk", patience=PATIENCE)
        self._attendant = QueueWorker(
            self.server_id, waiting=lambda: set(self._places), deliver=self._deliver, lose=self._lose,
            tidy=self._return_unclaimed_leases,
        )  # fmt: skip
        self._placing = False
        self._closed = False

    def __len__(self) -> int:
        return len(self._places)

    async def turn(
        self, asked: requests.Acquire, *, wait_seconds: float, gone: "asyncio.Future[None]"
    ) -> WaitResult[results.Acquired]:
        """For one name. Raises ClientDisconnected, ShuttingDown and Unavailable."""
        clock = _Clock(wait_seconds)
        queue_seq: int | None = None
        while True:
            placed = await self._stand(asked, clock, gone, queue_seq=queue_seq, is_requeue=queue_seq is not None)
            position = None
            if placed.verdict == Verdict.WAITING:
                queue_seq = placed.queue_seq
                handed, position = await self._wait(placed, left=clock.left, gone=gone)
                if handed is not None and handed.verdict == Verdict.ACQUIRED:
                    return WaitResult(_acquired(handed), clock.waited_ms)
            if gone.done():
                # Nobody would read of the lease.
                raise ClientDisconnected
            has_no_place = placed.verdict in (Verdict.QUEUE_FULL, Verdict.SUPERSEDED)
            (outcome,) = await self._desk.perform(acquire([asked]))
            in_vain = outcome.verdict in (Verdict.HELD, Verdict.DELAYED)
            if in_vain and placed.verdict == Verdict.IDEMPOTENCY_CONFLICT:
                # By somebody in line, with another request.
                outcome.verdict, in_vain = placed.verdict, False
            if not in_vain or clock.left <= 0 or has_no_place:
                return WaitResult(outcome, clock.waited_ms, position)

    async def turn_for_all(
        self, asked: requests.AcquireAll, *, wait_seconds: float, gone: "asyncio.Future[None]"
    ) -> WaitResult[list[results.AcquireAllRow]]:
        """For several names, all or none. It stands in line for one of those that are in the way, the first by name;
        when it has that one, it tries all; if another is in the way, it gives the first one on and stands in line
        there, with the seniority it has. So it never holds one while it waits for another, and cannot deadlock."""
        clock = _Clock(wait_seconds)
        queue_seq: int | None = None
        stood_for: str | None = None
        position: int | None = None
        handed_lease_id: results.Handover | None = None
        in_vain = 0
        while True:
            rows = await self._try_all(asked, handed_lease_id)
            handed_lease_id = None
            if rows[0].verdict != Verdict.HELD or clock.left <= 0:
                return WaitResult(rows, clock.waited_ms, position)
            first = min(row.name for row in rows if row.blocks)
            one = _one_of(asked, first)
            placed = await self._stand(one, clock, gone, queue_seq=queue_seq, is_requeue=first == stood_for)
            if placed.verdict in (Verdict.QUEUE_FULL, Verdict.SUPERSEDED):
                return WaitResult(rows, clock.waited_ms)
            if placed.verdict == Verdict.IDEMPOTENCY_CONFLICT:
                rows[0].verdict = placed.verdict
                return WaitResult(rows, clock.waited_ms)
            if placed.verdict == Verdict.WAITING:
                queue_seq, stood_for = placed.queue_seq, first
                handed, position = await self._wait(placed, left=clock.left, gone=gone)
                if handed is not None and handed.verdict == Verdict.ACQUIRED:
                    handed_lease_id = handed
                in_vain = 0
                continue
            # Free by now; or its own already, by an earlier try, while it lacks others: then nobody would wake it.
            in_vain += 1
            if in_vain > 1:
                await asyncio.wait({gone}, timeout=min(max(clock.left, 0), PAUSE_SECONDS))
            if gone.done():
                raise ClientDisconnected

    async def close(self) -> None:
        """Everybody leaves, and is told that the server stops."""
        self._closed = True
        for place in self._places.values():
            if not place.handed.done():
                place.handed.set_exception(ShuttingDown())
                # Whoever is leaving just now does not ask any more, and asyncio would complain.
                place.handed.exception()
        await self._attendant.stop()
        if self._attendant.was_there:
            # If it cannot say so, it falls silent.
            with contextlib.suppress(Unavailable):
                await self._return_unclaimed_leases()
                await self._desk.perform(delete_server(self.server_id))
        await self._desk.close()

    async def _stand(
        self, asked: requests.Acquire, clock: "_Clock", gone: "asyncio.Future[None]", *, queue_seq: int | None,
        is_requeue: bool,
    ) -> results.Enqueued:  # fmt: skip
        """Tries until nobody else is working on the lock, or the time is up."""
        pause = MIN_PAUSE_SECONDS
        while True:
            placed = await self._ask_for_a_place(asked, left=clock.left, queue_seq=queue_seq, is_requeue=is_requeue)
            if placed.verdict != Verdict.ROW_LOCKED or clock.left <= 0:
                return placed
            queue_seq = placed.queue_seq
            await asyncio.wait({gone}, timeout=min(clock.left, pause))
            pause = min(2 * pause, PAUSE_SECONDS)
            if gone.done():
                raise ClientDisconnected

    async def _ask_for_a_place(
        self, asked: requests.Acquire, *, left: float, queue_seq: int | None, is_requeue: bool
    ) -> results.Enqueued:
        if self._closed:
            raise ShuttingDown
        await self._attendant.ensure_running()
        wait = requests.Enqueue(
            **msgspec.structs.asdict(asked), server_id=self.server_id, wait_ms=round(max(left, 0) * 1000) + 1,
            queue_seq=queue_seq, is_requeue=is_requeue,
        )  # fmt: skip
        placed: asyncio.Future[results.Enqueued] = asyncio.get_running_loop().create_future()
        self._arrivals.append((wait, placed))
        if self._admitting is None or self._admitting.done():
            self._admitting = asyncio.create_task(self._admit())
        return await asyncio.shield(placed)

    async def _admit(self) -> None:
        """Gives all who have arrived meanwhile their places, together."""
        while self._arrivals:
            batch = [self._arrivals.popleft() for _ in range(min(len(self._arrivals), MAX_AT_ONCE))]
            self._placing = True
            try:
                rows = await self._desk.perform(enqueue([wait for wait, _ in batch]))
            except Exception as error:
                for _, placed in batch:
                    placed.set_exception(error)
                continue
            finally:
                self._placing = False
            for (_, placed), row in zip(batch, rows, strict=True):
                if row.verdict == Verdict.WAITING:
                    self._register(row)
                placed.set_result(row)

    def _register(self, row: results.Enqueued) -> None:
        if row.replaced_waiter_id is not None:
            # Of a first try in the same process, or in another, which then finds out by looking.
            self._lose(row.replaced_waiter_id)
        place = PendingWaiter(asyncio.get_running_loop().create_future())
        self._places[row.waiter_id] = place
        early = self._early.pop(row.waiter_id, None)
        if early is not None:
            place.handed.set_result(early)

    async def _wait(
        self, placed: results.Enqueued, *, left: float, gone: "asyncio.Future[None]"
    ) -> tuple[results.Handover | None, int | None]:
        """What it was handed, or the position it had in the end, or neither if it has lost its place."""
        place = self._places[placed.waiter_id]
        either: set[asyncio.Future[Any]] = {place.handed, gone}
        position: int | None = None
        is_taken = False
        try:
            await asyncio.wait(either, timeout=max(left, 0), return_when=asyncio.FIRST_COMPLETED)
            if not place.handed.done() and not gone.done():
                # At the last moment. If it cannot be asked, what it was handed is given on.
                with contextlib.suppress(Unavailable):
                    await self._attendant.collect()
            if not place.handed.done():
                (left_line,) = await self._desk.perform(dequeue([placed.waiter_id], server_id=self.server_id))
                position = left_line.position
            for _ in range(TURNS_TO_NOTICE):
                await asyncio.sleep(0)
            if gone.done():
                raise ClientDisconnected
            # Now or while it was leaving.
            is_taken = place.handed.done()
            return (place.handed.result(), None) if is_taken else (None, position)
        finally:
            del self._places[placed.waiter_id]
            if not is_taken:
                await self._give_back_from(place)

    async def _give_back_from(self, place: PendingWaiter) -> None:
        """What was brought to a request that does not take it any more."""
        if place.handed.done() and place.handed.exception() is None:
            handed = place.handed.result()
            if handed is not None:
                await self._give_back(handed)

    async def _try_all(
        self, asked: requests.AcquireAll, handed_lease_id: results.Handover | None
    ) -> list[results.AcquireAllRow]:
        """What is in hand becomes one of them, or is given on."""
        asked.handed_lease_id = handed_lease_id.lease_id if handed_lease_id else None
        has_all = False
        try:
            rows = await self._desk.perform(acquire_all(asked))
            has_all = rows[0].verdict in (Verdict.ACQUIRED, Verdict.RECOGNISED)
            return rows
        finally:
            # If it is not known whether it has all, they are no longer as they were picked up, and stay.
            if handed_lease_id is not None and not has_all:
                await self._give_back(handed_lease_id)

    async def _give_back(self, lease: results.Handover) -> None:
        try:
            await self._give_on(lease)
        except BaseException:
            # The attendant tries again; otherwise it would be dead until its TTL.
            self._early[lease.waiter_id] = lease
            raise

    async def _give_on(self, *leases: results.Handover) -> None:
        endings = [
            requests.EndAndHandOver(
                digest=None, space_id=lease.space_id, name=lease.name, lease_id=lease.lease_id, ending="leave",
                renewed_at=lease.now,
            )
            for lease in leases
            if lease.verdict == Verdict.ACQUIRED
        ]  # fmt: skip
        if endings:
            await self._desk.perform(end_and_hand_over(endings))

    async def _return_unclaimed_leases(self) -> None:
        """What was handed to a request that has gone without being able to say so."""
        if self._placing:
            return
        strays, self._early = self._early, {}
        try:
            await self._give_on(*strays.values())
        except BaseException:
            # As there.
            self._early = strays | self._early
            raise

    def _deliver(self, handed: results.Handover) -> None:
        place = self._places.get(handed.waiter_id)
        if place is None or place.handed.done():
            self._early[handed.waiter_id] = handed
        else:
            place.handed.set_result(handed)

    def _lose(self, waiter_id: int) -> None:
        place = self._places.get(waiter_id)
        if place is not None and not place.handed.done():
            place.handed.set_result(None)


class _Clock:
    def __init__(self, seconds: float) -> None:
        self._began = asyncio.get_running_loop().time()
        self._deadline = self._began + seconds

    @property
    def left(self) -> float:
        return self._deadline - asyncio.get_running_loop().time()

    @property
    def waited_ms(self) -> int:
        return round((asyncio.get_running_loop().time() - self._began) * 1000)


def _acquired(handed: results.Handover) -> results.Acquired:
    return results.Acquired(
        n=0, verdict=handed.verdict, name=handed.name, lease_id=handed.lease_id, fencing_token=handed.fencing_token,
        holder_id=handed.holder_id, owner=handed.owner, metadata=handed.metadata, acquired_at=handed.acquired_at,
        expires_at=handed.expires_at, available_at=None, lock_delay_seconds=None, waiters=0, now=handed.now,
        space_id=handed.space_id, max_ttl_seconds=None, max_metadata_length=None, requests_per_second=None,
    )  # fmt: skip


def _one_of(asked: requests.AcquireAll, name: str) -> requests.Acquire:
    terms = msgspec.structs.asdict(asked)
    del terms["names"], terms["handed_lease_id"]
    return requests.Acquire(**terms, name=name)
