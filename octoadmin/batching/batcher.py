"""The batcher: requests that arrive while a statement runs form the next one (group commit).

A statement and its commit have a fixed cost, whatever the number of requests in it. No request waits for others: the
next batch has those that came while the last one ran.

Each request gets its own result. What can fail, and what that means for the requests of the statement:

- The statement failed and the connection works: it was rolled back, so nothing has changed. The requests get RolledBack
  and fall back to Django, which runs each alone, so that one cannot fail the others. So do requests for names of
  namespaces that must not be in a batch.
- The connection was lost: whether the statement was committed is unknown. The requests get Unavailable, and are not
  retried.
- The client disconnected before its request was in a batch: it is left out.

Spaces are served in turn: the requests of one do not wait behind a queue of another's.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import psycopg
import structlog

from locks import tracing
from locks.async_responses import Receive, wait_for_disconnect
from locks.engine.execution import Unavailable, run_async
from locks.engine.operations import resolve_handovers, run_round
from locks.engine.requests import Caller
from locks.engine.retry import MAX_ROUNDS
from locks.engine.statements import Statement
from locks.engine.verdicts import Verdict
from locks.postgresql.connections import AsyncConnection, DeadlinePassed
from octoadmin.batching.reconnecting import ReconnectingConnection
from octoadmin.http.asgi_types import ClientGone
from octoadmin.monitoring import batch_metrics as metrics
from octoadmin.wsgi_bridge.fair_queue import FairQueue
from octoadmin.wsgi_bridge.threads import Overloaded

MAX_BATCH_SIZE = 64
MAX_WAITING = 1000
# When a request has waited for longer, another connection is used as well.
SCALE_OUT_DELAY = 0.02
# Beyond it the database counts as unreachable.
STATEMENT_TIMEOUT = 5.0
# After a failed attempt to connect, requests fail at once for so long.
RECONNECT_BACKOFF = 0.25

_log = structlog.stdlib.get_logger(__name__)


class RolledBack(Exception):
    """The statement failed and nothing was changed."""


class Failed(Exception):
    """An unexpected error, logged already."""


class BatchItem:
    """A request that waits for its result. `receive` tells when its client disconnects."""

    __slots__ = ("disconnect", "receive", "request", "result", "rounds", "space_id", "span", "submitted_at")

    def __init__(
        self, request: Caller, receive: Receive, loop: asyncio.AbstractEventLoop, space_id: int | None
    ) -> None:
        self.request = request
        self.space_id = space_id
        self.receive = receive
        self.result: asyncio.Future[Any] = loop.create_future()
        self.rounds = 0
        self.submitted_at = loop.time()
        self.disconnect: asyncio.Task[None] | None = None
        self.span = None if tracing.tracer is None else tracing.tracer.current()

    def watch_client(self) -> None:
        """Only for requests that wait for long: most have their result before a client could leave."""
        if self.disconnect is None:
            disconnect = self.disconnect = asyncio.ensure_future(wait_for_disconnect(self.receive))
            self.result.add_done_callback(lambda _: disconnect.cancel())

    def fail(self, error: Exception) -> None:
        if not self.result.done():
            self.result.set_exception(error)


class Worker:
    """A connection, and the batch that it runs."""

    def __init__(self) -> None:
        self.connection = ReconnectingConnection()
        self.batch: list[BatchItem] = []
        self.task: asyncio.Task[None] | None = None


class Batcher:
    """For one kind of statement, on one event loop."""

    def __init__(self, statement: Statement[Any], *, operation: str, connections: int) -> None:
        self._statement = statement
        self._operation = operation
        self._waiting: FairQueue[BatchItem] = FairQueue()
        self._idle = [Worker() for _ in range(connections)]
        self._busy: set[Worker] = set()
        self._unreachable_until = 0.0
        self._watchdog_timer: asyncio.TimerHandle | None = None
        self._stopping = False
        self._sizes = metrics.batch_size.labels(operation)
        self._seconds = metrics.statement_seconds.labels(operation)
        self._length = metrics.waiting.labels(operation)

    def submit(self, request: Caller, receive: Receive, *, space_id: int | None = None) -> "asyncio.Future[Any]":
        """Its result, or ClientGone, Unavailable, RolledBack or Failed. Raises Overloaded and Unavailable. Requests
        whose space is not known yet are served as those of one space."""
        waiting = self._waiting
        if waiting.is_full(space_id, max_length=MAX_WAITING) or self._stopping:
            raise Overloaded
        loop = asyncio.get_running_loop()
        item = BatchItem(request, receive, loop, space_id)
        if item.submitted_at < self._unreachable_until:
            raise Unavailable("the database could not be reached a moment ago")
        waiting.append(space_id, item)
        if not self._busy or len(waiting) >= MAX_BATCH_SIZE:
            self._start(loop)
        if self._watchdog_timer is None:
            self._watchdog_timer = loop.call_later(SCALE_OUT_DELAY, self._watchdog, loop)
        return item.result

    async def stop(self, *, seconds: float) -> None:
        """Accepts no more requests, and lets those it has end."""
        self._stopping = True
        tasks = [worker.task for worker in self._busy if worker.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)
        for worker in self._idle:
            await worker.connection.close()

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        """As a task: requests that arrive before it begins join the batch."""
        if self._idle:
            worker = self._idle.pop()
            self._busy.add(worker)
            worker.task = loop.create_task(self._work(worker, loop))

    async def _work(self, worker: Worker, loop: asyncio.AbstractEventLoop) -> None:
        try:
            while batch := self._next_batch():
                worker.batch = batch
                started = time.perf_counter()
                await self._run(worker, loop)
                seconds = time.perf_counter() - started
                self._seconds.observe(seconds)
                if tracing.tracer is not None:
                    tracing.tracer.record_batch(self._operation, [item.span for item in batch], seconds=seconds)
                # Responses are sent, and requests that have arrived join the next batch.
                await asyncio.sleep(0)
        finally:
            worker.batch = []
            self._busy.remove(worker)
            self._idle.append(worker)
            if self._waiting and not self._busy:
                self._start(loop)

    def _next_batch(self) -> list[BatchItem]:
        batch: list[BatchItem] = []
        while len(batch) < MAX_BATCH_SIZE and (popped := self._waiting.pop()):
            _space_id, item = popped
            if item.disconnect is not None and item.disconnect.done():
                item.fail(ClientGone())
            elif not item.result.done():
                batch.append(item)
        self._length.set(len(self._waiting))
        if batch:
            self._sizes.observe(len(batch))
        return batch

    async def _run(self, worker: Worker, loop: asyncio.AbstractEventLoop) -> None:
        batch = worker.batch
        try:
            connection = await worker.connection.ready()
        except Unavailable as error:
            self._fail_all(batch, str(error), now=loop.time())
            return
        connection.deadline_seconds = STATEMENT_TIMEOUT
        try:
            results = await run_async(connection, run_round(self._statement, [item.request for item in batch]))
        except Exception as error:
            await self._handle_failure(worker, connection, error)
            return
        done: list[tuple[BatchItem, Any]] = []
        handovers: list[BatchItem] = []
        for item, result in zip(reversed(batch), reversed(results), strict=True):
            match result.verdict:
                case Verdict.RETRY:
                    self._requeue(item)
                case Verdict.NEEDS_HANDOVER:
                    handovers.append(item)
                case Verdict.UNGUARDED:
                    item.fail(RolledBack("a name of a namespace runs alone"))
                case _:
                    done.append((item, result))
        # The next statement is sent first: the database works on it while these responses are made.
        loop.call_soon(_resolve, done)
        if handovers:
            await self._hand_over(worker, connection, handovers)

    async def _hand_over(self, worker: Worker, connection: AsyncConnection, items: list[BatchItem]) -> None:
        """One statement more for locks with waiters. The round before it is committed, and this may take several
        commits, so after a failure the outcome is unknown: none of the requests may run again."""
        worker.batch = items
        try:
            operation = resolve_handovers(self._statement, [item.request for item in items])
            results = await run_async(connection, operation)
        except Exception as error:
            message = str(error)
            self._log_unavailable(items, message)
            _fail(items, lambda: Unavailable(message))
            await worker.connection.close()
            return
        for item, result in zip(items, results, strict=True):
            if result is None:
                self._requeue(item)
        _resolve([(item, result) for item, result in zip(items, results, strict=True) if result is not None])

    def _requeue(self, item: BatchItem) -> None:
        """In front, for the next round."""
        if item.rounds < MAX_ROUNDS:
            item.rounds += 1
            self._waiting.appendleft(item.space_id, item)
        else:
            item.fail(RolledBack("out of retries"))

    async def _handle_failure(self, worker: Worker, connection: AsyncConnection, error: Exception) -> None:
        if _was_rolled_back(connection, error):
            _log.warning("a batch failed; each request runs alone", operation=self._operation, error=str(error))
            _fail(worker.batch, lambda: RolledBack(str(error)))
            return
        if isinstance(error.__cause__, DeadlinePassed):
            self._fail_all(worker.batch, str(error), now=asyncio.get_running_loop().time())
        elif isinstance(error, Unavailable):
            self._log_unavailable(worker.batch, str(error))
            _fail(worker.batch, lambda: Unavailable(str(error)))
        else:
            _log.error("unhandled exception", operation=self._operation, exc_info=error)
            _fail(worker.batch, Failed)
        await worker.connection.close()

    def _fail_all(self, batch: list[BatchItem], error: str, *, now: float) -> None:
        """The database is unreachable: also for the requests that wait, and for those of the next moment."""
        self._unreachable_until = now + RECONNECT_BACKOFF
        items = [*batch, *self._waiting]
        self._waiting.clear()
        self._log_unavailable(items, error)
        _fail(items, lambda: Unavailable(error))

    def _log_unavailable(self, items: list[BatchItem], error: str) -> None:
        _log.warning("the database failed requests", operation=self._operation, count=len(items), error=error)

    def _watchdog(self, loop: asyncio.AbstractEventLoop) -> None:
        """Runs every SCALE_OUT_DELAY while there are requests."""
        now = loop.time()
        if any(item.submitted_at < now - SCALE_OUT_DELAY for item in self._waiting.first_items()):
            self._start(loop)
            for item in self._waiting:
                item.watch_client()
        self._watchdog_timer = None
        if self._waiting or self._busy:
            self._watchdog_timer = loop.call_later(SCALE_OUT_DELAY, self._watchdog, loop)


def _resolve(done: list[tuple[BatchItem, Any]]) -> None:
    for item, result in reversed(done):
        if not item.result.done():
            item.result.set_result(result)


def _fail(items: list[BatchItem], error: Callable[[], Exception]) -> None:
    for item in items:
        item.fail(error())


def _was_rolled_back(connection: AsyncConnection, error: Exception) -> bool:
    """The server reported that the statement failed, and is still there."""
    cause = error.__cause__ if isinstance(error, Unavailable) else error
    if not isinstance(cause, psycopg.Error) or cause.sqlstate is None:
        return False
    return not connection.closed and not isinstance(cause, psycopg.errors.ReadOnlySqlTransaction)
