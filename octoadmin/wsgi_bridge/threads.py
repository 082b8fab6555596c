"""A fixed set of long-lived threads, each keeping its own database connection from one job to the next.

Jobs come from an event loop and their results go back to it. Unlike concurrent.futures this has a bounded queue, wakes
the loop once for each job, and stops without waiting for a job that hangs. The thread that became idle last gets the
next job: its caches are warm.

Jobs belong to groups, which are served in turn, and no group has all threads: a client that sends many requests, or
slow ones, delays the jobs of others by little.
"""

import asyncio
import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable
from contextvars import Context
from queue import SimpleQueue
from typing import Any, TypeVar

from django.db import connections

from locks.compute_turn import compute_turn
from octoadmin.wsgi_bridge.fair_queue import FairQueue

Result = TypeVar("Result")
Job = tuple[Callable[[], Any], "asyncio.Future[Any]"]
GroupedJob = tuple[Hashable, Job]
Inbox = SimpleQueue[GroupedJob | None]


class Overloaded(Exception):
    """The queue is full."""


class Threads:
    def __init__(self, *, count: int, max_waiting: int, name: str, takes_turns: bool = True) -> None:
        """`takes_turns`: its threads compute one at a time, see `locks.compute_turn`."""
        self._takes_turns = takes_turns
        self._max_waiting = max_waiting
        # While a thread is idle, at most one group can have so many. Its next job is started by the thread that ends
        # one of its jobs, so no thread is idle while a job could run.
        self._max_running = max(1, count * 3 // 4)
        # Guards the fields below. A job waits only while no thread is idle, or its group has all that it may have.
        self._lock = threading.Lock()
        self._waiting: FairQueue[Job] = FairQueue()
        self._running: Counter[Hashable] = Counter()
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

    def submit(
        self, job: Callable[[], Result], *, group: Hashable = None, always: bool = False
    ) -> "asyncio.Future[Result]":
        """Runs the job on one of the threads. `always`: also when the queue is full, for work that was begun."""
        self.start()
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        with self._lock:
            if self._idle and self._running[group] < self._max_running:
                inbox = self._idle.pop()
                self._running[group] += 1
            elif always or not (self._stopping or self._waiting.is_full(group, max_length=self._max_waiting)):
                self._waiting.append(group, (job, future))
                return future
            else:
                raise Overloaded
        inbox.put((group, (job, future)))
        return future

    def _next_job(self, inbox: Inbox, done: Hashable) -> GroupedJob | None:
        """After a job of the group `done`."""
        with self._lock:
            self._running[done] -= 1
            if not self._running[done]:
                del self._running[done]
            busy = {group for group, running in self._running.items() if running >= self._max_running}
            next_job = self._waiting.pop(without=busy)
            if next_job is not None:
                self._running[next_job[0]] += 1
                return next_job
            if self._stopping:
                return None
            self._idle.append(inbox)
        return inbox.get()

    def _work(self, inbox: Inbox) -> None:
        next_job = inbox.get()
        while next_job is not None:
            group, job = next_job
            _run(*job, takes_turns=self._takes_turns)
            # Frees what the job held, instead of keeping it until the next job comes.
            del next_job, job
            next_job = self._next_job(inbox, group)
        connections.close_all()


def _run(job: Callable[[], Any], future: "asyncio.Future[Any]", *, takes_turns: bool) -> None:
    result: Any = None
    error: Exception | None = None
    try:
        # An empty context: nothing that one job binds is seen by the next.
        context = Context()
        result = compute_turn.run(lambda: context.run(job)) if takes_turns else context.run(job)
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
