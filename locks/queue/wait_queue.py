"""The wait queue of this process: a request waits here until it gets the lock, its time is up, or its client
disconnects."""

import asyncio
import contextlib
import itertools
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from uuid import UUID, uuid4

import msgspec

from locks.engine import requests, results
from locks.engine.database_clock import database_clock
from locks.engine.execution import Unavailable
from locks.engine.handover import delete_server, dequeue, end_and_hand_over, enqueue, hand_over_names
from locks.engine.operations import acquire, acquire_all
from locks.engine.verdicts import Verdict
from locks.queue.queue_worker import QueueWorker
from locks.queue.shared_connection import SharedConnection

# How long a statement may wait for a locked row.
LOCK_TIMEOUT = "2s"
# How many requests are enqueued in one statement.
MAX_BATCH_SIZE = 200
MIN_PAUSE_SECONDS = 0.01
MAX_PAUSE_SECONDS = 0.1
# A disconnect may have arrived without having been read. After so many iterations of the event loop it is known: the
# transport reads it, the server notes it, `receive` returns it, and the task that waits for it ends.
ITERATIONS_TO_NOTICE = 4

Result = TypeVar("Result")


class ClientDisconnected(Exception):
    """The client has closed its connection. Its request has left the queue."""


class ShuttingDown(Exception):
    """The server stops. The request has left the queue."""


@dataclass(frozen=True, slots=True)
class WaitResult(Generic[Result]):
    """`position` is the one in the queue when the time was up."""

    result: Result
    waited_ms: int
    position: int | None = None


@dataclass(slots=True)
class PendingWaiter:
    # The lease that it was handed; None if its entry in the queue is gone.
    handover: "asyncio.Future[results.Handover | None]"
    # Runs while the lock does not say yet that the request waits.
    marking: "asyncio.Task[None] | None" = None

    def shut_down(self) -> None:
        if not self.handover.done():
            self.handover.set_exception(ShuttingDown())
            # A request that is leaving does not read it, and asyncio would log it as never retrieved.
            self.handover.exception()


class WaitQueue:
    def __init__(self) -> None:
        self.server_id: UUID = uuid4()
        self._waiters: dict[int, PendingWaiter] = {}
        # Handed to a waiter that is not registered yet or any more: delivered to it, or returned. The number says which
        # of the statements that let requests join began before: one of those may have given the waiter its place.
        self._unclaimed: dict[int, tuple[int, results.Handover]] = {}
        self._numbers = itertools.count()
        self._joining: set[int] = set()
        self._arrivals: deque[tuple[requests.Enqueue, asyncio.Future[results.Enqueued]]] = deque()
        self._enqueue_task: asyncio.Task[None] | None = None
        # Free locks with waiters, to be handed over.
        self._free: set[results.LockKey] = set()
        self._is_closed = False
        self._connection = SharedConnection(purpose="wait queue", lock_timeout=LOCK_TIMEOUT)
        self._worker = QueueWorker(
            self.server_id, is_needed=self._needs_worker,
            waiting=lambda: set(self._waiters), deliver=self._deliver, mark_lost=self._mark_lost,
            on_tick=self._return_unclaimed_leases,
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self._waiters)

    def _needs_worker(self) -> bool:
        return bool(self._arrivals or self._joining or self._waiters or self._unclaimed)

    def wait_options(self, seconds: float) -> dict[str, Any]:
        """The fields of a request that joins the queue in this process."""
        return {"server_id": self.server_id, "wait_ms": round(max(seconds, 0) * 1000) + 1}

    def arrival_options(self, seconds: float) -> dict[str, Any]:
        """The same for a request that has just arrived."""
        return self.wait_options(seconds) | {"queue_seq": database_clock.stamp()}

    @contextlib.contextmanager
    def joining(self) -> Iterator[None]:
        """While a statement runs that may give requests their places. They have to be registered before another task
        runs: until then, leases that are handed to them are kept."""
        number = next(self._numbers)
        self._joining.add(number)
        try:
            yield
        finally:
            self._joining.remove(number)

    async def acquire(
        self, request: requests.Acquire, *, wait_seconds: float, disconnected: "asyncio.Future[None]",
        waiter_id: int | None = None,
    ) -> WaitResult[results.Acquired]:  # fmt: skip
        """For one name. `waiter_id` is the place that the request has already. Raises ClientDisconnected, ShuttingDown
        and Unavailable."""
        timer = _Timer(wait_seconds)
        queue_seq = request.queue_seq or database_clock.stamp()
        has_waited = False
        request.server_id = request.wait_ms = None
        if waiter_id is not None:
            if self._is_closed:
                # The statement that gave it its place may have ended after all others had left the queue.
                await self._connection.run(dequeue([waiter_id], server_id=self.server_id))
                raise ShuttingDown
            self._register(waiter_id)
        while True:
            entry = await self._enqueue(
                request, timer, disconnected, queue_seq=queue_seq, waiter_id=waiter_id, is_requeue=has_waited
            )
            waiter_id = None
            position = None
            if entry.waiter_id is not None:
                queue_seq, has_waited = entry.queue_seq, True
                handover, position = await self._wait(entry, seconds=timer.remaining, disconnected=disconnected)
                if handover is not None and handover.verdict == Verdict.ACQUIRED:
                    return WaitResult(_acquired(handover), timer.waited_ms)
            if disconnected.done():
                raise ClientDisconnected
            (result,) = await self._connection.run(acquire([request]))
            is_blocked = result.verdict in (Verdict.HELD, Verdict.DELAYED)
            if is_blocked and entry.verdict == Verdict.IDEMPOTENCY_CONFLICT:
                # With a waiter that has sent another request with the same key.
                result.verdict, is_blocked = entry.verdict, False
            # Without a row the space is at its limit of names.
            cannot_wait = entry.verdict in (Verdict.QUEUE_FULL, Verdict.SUPERSEDED, Verdict.ROW_MISSING)
            if not is_blocked or timer.remaining <= 0 or cannot_wait:
                return WaitResult(result, timer.waited_ms, position)

    async def acquire_all(
        self, request: requests.AcquireAll, *, wait_seconds: float, disconnected: "asyncio.Future[None]"
    ) -> WaitResult[list[results.AcquireAllRow]]:
        """For several names, all or none. The request waits for one of the blocking names, the first by name. When
        it has been handed that one, it tries all; if another is blocking, it returns the first and waits for the
        other, with the queue_seq that it has. So it never holds one name while it waits for another, and cannot
        deadlock."""
        timer = _Timer(wait_seconds)
        queue_seq = database_clock.stamp()
        queued_for: str | None = None
        position: int | None = None
        handed: results.Handover | None = None
        failures = 0
        while True:
            rows = await self._try_all(request, handed)
            handed = None
            if rows[0].verdict not in (Verdict.HELD, Verdict.DELAYED) or timer.remaining <= 0:
                return WaitResult(rows, timer.waited_ms, position)
            names = [row.name for row in rows if row.is_blocking or row.is_overlapped]
            if not names:
                # What overlapped with them has ended a moment ago.
                continue
            blocking = min(names)
            entry = await self._enqueue(
                _single(request, blocking), timer, disconnected, queue_seq=queue_seq, is_requeue=blocking == queued_for
            )
            if entry.verdict in (Verdict.QUEUE_FULL, Verdict.SUPERSEDED):
                return WaitResult(rows, timer.waited_ms)
            if entry.verdict == Verdict.IDEMPOTENCY_CONFLICT:
                rows[0].verdict = entry.verdict
                return WaitResult(rows, timer.waited_ms)
            if entry.waiter_id is not None:
                queue_seq, queued_for = entry.queue_seq, blocking
                handover, position = await self._wait(entry, seconds=timer.remaining, disconnected=disconnected)
                if handover is not None and handover.verdict == Verdict.ACQUIRED:
                    handed = handover
                failures = 0
                continue
            # The name is free by now; or it is held by an earlier attempt of this request, and no handover would come.
            failures += 1
            if failures > 1:
                await asyncio.wait({disconnected}, timeout=min(max(timer.remaining, 0), MAX_PAUSE_SECONDS))
            if disconnected.done():
                raise ClientDisconnected

    async def close(self) -> None:
        """All requests leave the queue and get ShuttingDown."""
        self._is_closed = True
        for waiter in self._waiters.values():
            waiter.shut_down()
        if self._enqueue_task is not None:
            # Requests that are just joining get ShuttingDown from it.
            await asyncio.wait({self._enqueue_task})
        await self._worker.stop()
        if self._worker.has_run:
            # If this fails, the missing heartbeats have the same effect.
            with contextlib.suppress(Unavailable):
                await self._return_unclaimed_leases()
                await self._connection.run(delete_server(self.server_id))
        await self._connection.close()

    async def _enqueue(
        self, request: requests.Acquire, timer: "_Timer", disconnected: "asyncio.Future[None]", *,
        queue_seq: int | None, is_requeue: bool, waiter_id: int | None = None,
    ) -> results.Enqueued:  # fmt: skip
        """Tries until it has an entry, or another verdict than that the row is locked, or the time is up."""
        pause = MIN_PAUSE_SECONDS
        while True:
            try:
                entry = await self._enqueue_in_batch(
                    request, seconds=timer.remaining, queue_seq=queue_seq, waiter_id=waiter_id, is_requeue=is_requeue
                )
            except BaseException:
                self._forget(waiter_id)
                raise
            if entry.verdict == Verdict.UNKNOWN:
                # It was handed over already, or the queue worker's check finds that it is lost.
                entry.waiter_id, entry.queue_seq = waiter_id, queue_seq or 0
            elif entry.waiter_id is None:
                self._forget(waiter_id)
            if entry.verdict != Verdict.ROW_LOCKED or entry.waiter_id is not None or timer.remaining <= 0:
                return entry
            queue_seq = entry.queue_seq
            await asyncio.wait({disconnected}, timeout=min(timer.remaining, pause))
            pause = min(2 * pause, MAX_PAUSE_SECONDS)
            if disconnected.done():
                raise ClientDisconnected

    async def _enqueue_in_batch(
        self,
        request: requests.Acquire,
        *,
        seconds: float,
        queue_seq: int | None,
        waiter_id: int | None,
        is_requeue: bool,
    ) -> results.Enqueued:
        if not self._is_closed:
            await self._worker.ensure_running()
        if self._is_closed:
            raise ShuttingDown
        options = msgspec.structs.asdict(request) | self.wait_options(seconds) | {"queue_seq": queue_seq}
        arrival = requests.Enqueue(**options, waiter_id=waiter_id, is_requeue=is_requeue)
        return await asyncio.shield(self._arrive(arrival))

    def _arrive(self, arrival: requests.Enqueue) -> "asyncio.Future[results.Enqueued]":
        entry: asyncio.Future[results.Enqueued] = asyncio.get_running_loop().create_future()
        self._arrivals.append((arrival, entry))
        if self._enqueue_task is None or self._enqueue_task.done():
            self._enqueue_task = asyncio.create_task(self._enqueue_arrivals())
        return entry

    async def _enqueue_arrivals(self) -> None:
        """In batches: what arrives while a statement runs is in the next one."""
        while self._arrivals:
            batch = [self._arrivals.popleft() for _ in range(min(len(self._arrivals), MAX_BATCH_SIZE))]
            try:
                if self._is_closed:
                    raise ShuttingDown
                with self.joining():
                    rows = await self._connection.run(enqueue([arrival for arrival, _ in batch]))
            except Exception as error:
                for _, entry in batch:
                    entry.set_exception(error)
                    # That of a request which only had to be marked is not read.
                    entry.exception()
                continue
            for (arrival, entry), row in zip(batch, rows, strict=True):
                if row.waiter_id is not None:
                    self._mark_replaced(row)
                    if arrival.waiter_id is None:
                        self._register(row.waiter_id)
                    if row.verdict == Verdict.ROW_LOCKED:
                        self._mark_later(arrival, row)
                if row.is_free and row.space_id is not None:
                    self._free.add(results.LockKey(row.space_id, arrival.name))
                entry.set_result(row)
            await self._hand_over_free()

    async def _hand_over_free(self) -> None:
        """Locks that were freed before their waiters were marked, and so handed to none. If this fails, the check of
        the queue worker does it."""
        if not self._free:
            return
        free, self._free = self._free, set()
        with contextlib.suppress(Unavailable):
            await self._connection.run(hand_over_names(free))

    def _register(self, waiter_id: int) -> None:
        waiter = self._waiters[waiter_id] = PendingWaiter(asyncio.get_running_loop().create_future())
        _, handover = self._unclaimed.pop(waiter_id, (0, None))
        if handover is not None:
            waiter.handover.set_result(handover)
        elif self._is_closed:
            waiter.shut_down()

    def _forget(self, waiter_id: int | None) -> None:
        """A request that was registered and does not wait. A lease that it is handed all the same is returned."""
        waiter = None if waiter_id is None else self._waiters.pop(waiter_id, None)
        if waiter is not None and waiter.handover.done() and not waiter.handover.exception():
            handover = waiter.handover.result()
            if handover is not None:
                self._deliver(handover)

    def _mark_later(self, arrival: requests.Enqueue, row: results.Enqueued) -> None:
        waiter = None if row.waiter_id is None else self._waiters.get(row.waiter_id)
        if waiter is not None and waiter.marking is None and not self._is_closed:
            waiter.marking = asyncio.create_task(self._mark(arrival, row))

    def _mark_replaced(self, row: results.Enqueued) -> None:
        """If an earlier attempt waits in another process, that process finds out by its own check."""
        for replaced in row.replaced_waiter_ids or ():
            self._mark_lost(replaced)

    async def _mark(self, arrival: requests.Enqueue, entry: results.Enqueued) -> None:
        """Until the lock says that the request waits: meanwhile it has its place, but the statement that frees the lock
        hands it to none."""
        assert entry.waiter_id is not None
        arrival.waiter_id, arrival.queue_seq = entry.waiter_id, entry.queue_seq
        pause = MIN_PAUSE_SECONDS
        while entry.verdict == Verdict.ROW_LOCKED:
            await asyncio.sleep(pause)
            pause = min(2 * pause, MAX_PAUSE_SECONDS)
            try:
                entry = await asyncio.shield(self._arrive(arrival))
            except Unavailable:
                continue
            except ShuttingDown:
                return
        if entry.verdict not in (Verdict.WAITING, Verdict.UNKNOWN):
            # Its entry was removed. If it is unknown, it was handed over, or the queue worker's check finds out.
            self._mark_lost(arrival.waiter_id)

    async def _wait(
        self, entry: results.Enqueued, *, seconds: float, disconnected: "asyncio.Future[None]"
    ) -> tuple[results.Handover | None, int | None]:
        """What it was handed, or its position when the time was up, or neither if it has lost its entry."""
        assert entry.waiter_id is not None
        waiter = self._waiters[entry.waiter_id]
        either: set[asyncio.Future[Any]] = {waiter.handover, disconnected}
        position: int | None = None
        is_taken = False
        try:
            await asyncio.wait(either, timeout=max(seconds, 0), return_when=asyncio.FIRST_COMPLETED)
            if not waiter.handover.done() and not disconnected.done():
                # A handover at the last moment. If the claim fails, the lease is returned.
                with contextlib.suppress(Unavailable):
                    await self._worker.claim_handovers()
            if not waiter.handover.done():
                (dequeued,) = await self._connection.run(dequeue([entry.waiter_id], server_id=self.server_id))
                position = dequeued.position
            for _ in range(ITERATIONS_TO_NOTICE):
                await asyncio.sleep(0)
            if disconnected.done():
                raise ClientDisconnected
            # It may have been delivered while the request was leaving the queue.
            is_taken = waiter.handover.done()
            handover = waiter.handover.result() if is_taken else None
            # The check of the queue worker may have found that the entry is gone, since this request has removed it.
            return handover, position if handover is None else None
        finally:
            del self._waiters[entry.waiter_id]
            if waiter.marking is not None:
                waiter.marking.cancel()
            if not is_taken:
                await self._return_delivered(waiter)

    async def _return_delivered(self, waiter: PendingWaiter) -> None:
        """Returns the lease that was delivered to a request which does not take it any more, if there is one."""
        if waiter.handover.done() and waiter.handover.exception() is None:
            handover = waiter.handover.result()
            if handover is not None:
                await self._return_lease(handover)

    async def _try_all(
        self, request: requests.AcquireAll, handed: results.Handover | None
    ) -> list[results.AcquireAllRow]:
        """The handed lease becomes one of them, or is returned."""
        request.handed_lease_id = handed.lease_id if handed else None
        has_all = False
        try:
            rows = await self._connection.run(acquire_all(request))
            has_all = rows[0].verdict in (Verdict.ACQUIRED, Verdict.RECOGNISED)
            return rows
        finally:
            # If it is unknown whether the request has all: leases that it has were renewed since the claim, and stay.
            if handed is not None and not has_all:
                await self._return_lease(handed)

    async def _return_lease(self, handover: results.Handover) -> None:
        """Ends a lease that its request does not take. If that fails, it stays in `_unclaimed`."""
        try:
            await self._end_leases(handover)
        except BaseException:
            # The queue worker tries again; otherwise the lock would stay held for its TTL.
            self._keep(handover)
            raise

    async def _end_leases(self, *handovers: results.Handover) -> None:
        batch = [
            requests.EndAndHandOver(
                digest=None, space_id=handover.space_id, name=handover.name, lease_id=handover.lease_id,
                end_mode="leave", returnable_until=handover.returnable_until,
            )
            for handover in handovers
            if handover.verdict == Verdict.ACQUIRED
        ]  # fmt: skip
        if batch:
            await self._connection.run(end_and_hand_over(batch))

    async def _return_unclaimed_leases(self) -> None:
        """Not those that may belong to a request which is not registered yet."""
        oldest = min(self._joining, default=None)
        unclaimed = [handover for number, handover in self._unclaimed.values() if oldest is None or number < oldest]
        for handover in unclaimed:
            del self._unclaimed[handover.waiter_id]
        try:
            await self._end_leases(*unclaimed)
        except BaseException:
            for handover in unclaimed:
                self._keep(handover)
            raise

    def _keep(self, handover: results.Handover) -> None:
        self._unclaimed[handover.waiter_id] = next(self._numbers), handover

    def _deliver(self, handover: results.Handover) -> None:
        waiter = self._waiters.get(handover.waiter_id)
        if waiter is None or waiter.handover.done():
            self._keep(handover)
        else:
            waiter.handover.set_result(handover)

    def _mark_lost(self, waiter_id: int) -> None:
        waiter = self._waiters.get(waiter_id)
        if waiter is not None and not waiter.handover.done():
            waiter.handover.set_result(None)


class _Timer:
    def __init__(self, seconds: float) -> None:
        self._started = asyncio.get_running_loop().time()
        self._deadline = self._started + seconds

    @property
    def remaining(self) -> float:
        return self._deadline - asyncio.get_running_loop().time()

    @property
    def waited_ms(self) -> int:
        return round((asyncio.get_running_loop().time() - self._started) * 1000)


def _acquired(handover: results.Handover) -> results.Acquired:
    return results.Acquired(
        index=0, verdict=handover.verdict, name=handover.name, lease_id=handover.lease_id,
        fencing_token=handover.fencing_token, holder_id=handover.holder_id, owner=handover.owner,
        metadata=handover.metadata, acquired_at=handover.acquired_at, expires_at=handover.expires_at,
        available_at=None, lock_delay_seconds=None, waiters=0, now=handover.now, space_id=handover.space_id,
        max_ttl_seconds=None, max_metadata_length=None, requests_per_second=None,
    )  # fmt: skip


def _single(request: requests.AcquireAll, name: str) -> requests.Acquire:
    options = msgspec.structs.asdict(request)
    del options["names"], options["handed_lease_id"]
    return requests.Acquire(**options, name=name)
