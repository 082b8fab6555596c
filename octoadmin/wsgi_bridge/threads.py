"""A fixed set of long-lived threads, each keeping its own database connection from one job to the next.

Jobs come from an event loop and their results go back to it. Unlike concurrent.futures this has a bounded queue, wakes
the loop once for each job, and stops without waiting for a job that hangs. The thread that became idle last gets the
next job: its caches are warm.
"""

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable
from contextvars import Context
from queue import SimpleQueue
from typing import Any, TypeVar

from django.db import connections

Result = TypeVar("Result")
Job = tuple[Callable[[], Any], "asyncio.Future[Any]"]
Inbox = SimpleQueue[Job | None]


class Overloaded(Exception):
    """The queue is full."""


class Threads:
    def __init__(self, *, count: int, max_waiting: int, name: str) -> None:
        self._max_waiting = max_waiting
        # Guards the fields below. Jobs wait only while no thread is idle.
        self._lock = threading.Lock()
        self._waiting: deque[Job] = deque()
        self._idle: list[Inbox] = [SimpleQueue() for _ in range(count)]
        self._threads = [
            # Daemons, so that a job which hangs cannot keep the process from ending.
            threading.Thread(target=self._work, args=(inbox,), name=f"{name}-{number}", daemon=True)
            for number, inbox in enumerate(self._idle, start=1)
        ]
        self._started = False
        self._stopping = False

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def start(self) -> None:
        if not self._started:
            self._started = True
            for thread in self._threads:
                thread.start()

    def stop(self, *, seconds: float) -> None:
        """Accepts no more jobs and lets those it has end. Called once, and not on the event loop."""
        deadline = time.monotonic() + seconds
        with self._lock:
            self._stopping = True
            idle, self._idle = self._idle, []
        for inbox in idle:
            inbox.put(None)
        if self._started:
            for thread in self._threads:
                thread.join(max(0.0, deadline - time.monotonic()))

    def submit(self, job: Callable[[], Result], *, always: bool = False) -> "asyncio.Future[Result]":
        """Runs the job on one of the threads. `always`: also when the queue is full, for work that was begun."""
        self.start()
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        with self._lock:
            if self._idle:
                inbox = self._idle.pop()
            elif always or (len(self._waiting) < self._max_waiting and not self._stopping):
                self._waiting.append((job, future))
                return future
            else:
                raise Overloaded
        inbox.put((job, future))
        return future

    def _next_job(self, inbox: Inbox) -> Job | None:
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            if self._stopping:
                return None
            self._idle.append(inbox)
        return inbox.get()

    def _work(self, inbox: Inbox) -> None:
        next_job = inbox.get()
        while next_job is not None:
            _run(*next_job)
            # Frees what the job held, instead of keeping it until the next job comes.
            next_job = None
            next_job = self._next_job(inbox)
        connections.close_all()


def _run(job: Callable[[], Any], future: "asyncio.Future[Any]") -> None:
    result: Any = None
    error: Exception | None = None
    try:
        # An empty context: nothing that one job binds is seen by the next.
        result = Context().run(job)
    except StopIteration as raised:  # which a future cannot carry
        error = RuntimeError(f"a job raised {raised!r}")
    except Exception as raised:
        error = raised
    except BaseException as raised:  # sys.exit() in a view ends its request, not the server
        error = RuntimeError(f"a job raised {raised!r}")
    # The loop may be closed by now.
    with contextlib.suppress(RuntimeError):
        future.get_loop().call_soon_threadsafe(_resolve, future, result, error)


def _resolve(future: "asyncio.Future[Any]", result: Any, error: Exception | None) -> None:
    if future.done():  # the request was cancelled
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
