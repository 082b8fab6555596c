"""What a client consists of: a transport and a renewer, and for the blocking client a thread that runs both."""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import logging
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from octo import errors
from octo.lease import Renewable
from octo.protocol import Operation, Sleep
from octo.renewer import Renewer
from octo.transport import Transport

if TYPE_CHECKING:
    from octo.watch import EventStream

Result = TypeVar("Result")
log = logging.getLogger("octo")


class AsyncConnection:
    """On the event loop that uses it."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self._renewer = Renewer(transport.send)

    async def execute(self, operation: Operation[Result], name: str = "request") -> Result:
        with span(name):
            return await self._drive(operation)

    async def _drive(self, operation: Operation[Result]) -> Result:
        try:
            effect = next(operation)
            while True:
                if isinstance(effect, Sleep):
                    await asyncio.sleep(effect.seconds)
                    effect = operation.send(None)
                    continue
                try:
                    response = await self.transport.send(effect)
                except errors.TransportError as problem:
                    effect = operation.throw(problem)
                else:
                    effect = operation.send(response)
        except StopIteration as end:
            result: Result = end.value
            return result
        finally:
            operation.close()

    async def watch(self, stream: EventStream[Result]) -> AsyncGenerator[Result, None]:
        while True:
            problem: errors.TransportError | None = None
            try:
                async with self.transport.stream(stream.request()) as (response, lines):
                    stream.check_response(response)
                    async for line in lines:
                        for event in stream.feed_line(line):
                            yield event
            except errors.TransportError as broken:
                problem = broken
            await asyncio.sleep(stream.next_backoff(problem))

    def start_renewing(self, item: Renewable) -> None:
        self._renewer.add(item)

    def stop_renewing(self, item: Renewable) -> None:
        self._renewer.discard(item)

    async def close(self) -> None:
        await self._renewer.close()
        await self.transport.close()


class Connection:
    """An AsyncConnection on a thread of its own, which starts with the first request. After a fork the child starts
    another, and holds nothing: leases stay the parent's."""

    def __init__(self, transport: Transport) -> None:
        self._inner = AsyncConnection(transport)
        self._thread = LoopThread()
        self._finalizer = weakref.finalize(self, LoopThread.close, self._thread, self._inner)
        _connections.add(self)

    @property
    def transport(self) -> Transport:
        return self._inner.transport

    def execute(self, operation: Operation[Result], name: str = "request") -> Result:
        return self._thread.call(self._inner.execute(operation, name))

    def watch(self, stream: EventStream[Result]) -> Generator[Result, None, None]:
        events = self._inner.watch(stream)
        try:
            while True:
                try:
                    yield self._thread.call(events.__anext__())
                except StopAsyncIteration:
                    return
        finally:
            self._thread.call(events.aclose())

    def start_renewing(self, item: Renewable) -> None:
        self._thread.call_soon(self._inner.start_renewing, item)

    def stop_renewing(self, item: Renewable) -> None:
        self._thread.call_soon(self._inner.stop_renewing, item)

    def close(self) -> None:
        self._finalizer()

    def _after_fork(self) -> None:
        # Finalizing what the parent still uses would disturb it: a loop's selector is shared with the parent.
        _abandoned.append((self._inner, self._thread))
        self._finalizer.detach()
        Connection.__init__(self, self._inner.transport.reopened())


class LoopThread:
    """An event loop on a daemon thread."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closing = False

    def loop(self) -> asyncio.AbstractEventLoop:
        with self._guard:
            if self._closing:
                raise errors.TransportError("The client is closed.", maybe_sent=False)
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._run, args=(self._loop,), name="octo", daemon=True)
                self._thread.start()
            return self._loop

    def call(self, coroutine: Coroutine[Any, Any, Result] | Any) -> Result:
        assert threading.current_thread() is not self._thread, "observers must not send requests"
        try:
            future: concurrent.futures.Future[Result] = asyncio.run_coroutine_threadsafe(coroutine, self.loop())
        except errors.TransportError:
            coroutine.close()
            raise
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise errors.TransportError("The client was closed.") from None
        except BaseException:
            future.cancel()
            raise

    def call_soon(self, function: Callable[..., object], *arguments: Any) -> None:
        self.loop().call_soon_threadsafe(function, *arguments)

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        while not self._closing:
            try:
                loop.run_forever()
            except BaseException:
                # Something raised SystemExit on our loop. Leases depend on it, so it goes on.
                log.exception("the event loop was stopped, and is started again")

    def close(self, connection: AsyncConnection) -> None:
        with self._guard:
            self._closing = True
            loop, thread = self._loop, self._thread
        if loop is None or thread is None or not thread.is_alive():
            return
        with suppress(concurrent.futures.TimeoutError, concurrent.futures.CancelledError):
            asyncio.run_coroutine_threadsafe(_shut_down(connection), loop).result(5)
        loop.call_soon_threadsafe(loop.stop)
        if thread is not threading.current_thread():
            thread.join(5)
            if not thread.is_alive():
                loop.close()


async def _shut_down(connection: AsyncConnection) -> None:
    await connection.close()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


_connections: weakref.WeakSet[Connection] = weakref.WeakSet()
_abandoned: list[object] = []


def _after_fork() -> None:
    for connection in list(_connections):
        connection._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class TruthyEvent(threading.Event):
    """True when it is set, so that `if lease.lost:` means what it says."""

    def __bool__(self) -> bool:
        return self.is_set()


class AsyncTruthyEvent(asyncio.Event):
    """True when it is set."""

    def __bool__(self) -> bool:
        return self.is_set()


class Callbacks:
    """Runs the callbacks of one lease in order, on a thread of their own: a slow one delays neither renewals nor the
    callbacks of other leases."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._queue: deque[Callable[[], object]] = deque()
        self._running = False

    def submit(self, callback: Callable[[], object]) -> None:
        with self._guard:
            self._queue.append(callback)
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name="octo-callbacks", daemon=True).start()

    def _run(self) -> None:
        while True:
            with self._guard:
                if not self._queue:
                    self._running = False
                    return
                callback = self._queue.popleft()
            try:
                callback()
            except Exception:
                log.exception("a callback of a lease failed")


class AsyncCallbacks:
    """Runs callbacks on the event loop; a coroutine function becomes a task."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Future[Any]] = set()

    def submit(self, callback: Callable[[], object]) -> None:
        try:
            asyncio.get_running_loop().call_soon(self._call, callback)
        except RuntimeError:
            # The end of the lease was noticed by another thread.
            self._call(callback)

    def _call(self, callback: Callable[[], object]) -> None:
        try:
            result = callback()
        except Exception:
            log.exception("a callback of a lease failed")
            return
        if inspect.isawaitable(result):
            task = asyncio.ensure_future(result)
            self._tasks.add(task)
            task.add_done_callback(self._done)

    def _done(self, task: asyncio.Future[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            log.error("a callback of a lease failed", exc_info=problem)


def span(name: str) -> Any:
    """An OpenTelemetry span in programs that use OpenTelemetry; nothing is imported in others."""
    trace = sys.modules.get("opentelemetry.trace")
    return trace.get_tracer("octo").start_as_current_span(f"octo {name}") if trace else nullcontext()
