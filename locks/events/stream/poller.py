"""One task on one database connection that polls for all streams of this process.

Each job has its own interval and share of the time. Without streams there is no task and no connection.
"""

import asyncio
import contextlib
import time
from typing import Any, Protocol

import psycopg
import structlog

from locks.engine.async_connection import connect
from locks.engine.execution import Unavailable

RECONNECT_SECONDS = 2.0

_log = structlog.stdlib.get_logger(__name__)


class PollJob(Protocol):
    # The interval between polls, and the share of the time that they may take at most.
    seconds: float
    max_duty_cycle: float

    @property
    def is_needed(self) -> bool:
        """Whether any stream depends on it."""

    async def poll(self, connection: psycopg.AsyncConnection[Any]) -> bool:
        """True if there is more to read at once."""


class Poller:
    """Lives on the event loop."""

    def __init__(self) -> None:
        self._jobs: list[PollJob] = []
        self._task: asyncio.Task[None] | None = None
        # Set when a stream was added, of the loop that the task runs on.
        self._woken: asyncio.Event | None = None

    def register(self, *jobs: PollJob) -> None:
        self._jobs.extend(jobs)

    def ensure_running(self) -> None:
        """To be called after a stream was added. A job that was not needed before polls at once."""
        if self._task is None or self._task.done():
            self._woken = asyncio.Event()
            self._task = asyncio.create_task(self._run(self._woken))
        elif self._woken is not None:
            self._woken.set()

    @property
    def _is_needed(self) -> bool:
        return any(job.is_needed for job in self._jobs)

    async def _run(self, woken: asyncio.Event) -> None:
        while self._is_needed:
            try:
                async with await connect(purpose="live") as connection:
                    await self._poll_while_needed(connection, woken)
            except (psycopg.Error, Unavailable) as error:
                _log.warning("the poller lost its database connection", error=str(error))
                await asyncio.sleep(RECONNECT_SECONDS)
            except Exception:
                # If the task ended, the open streams would never get another event.
                _log.exception("the poller failed")
                await asyncio.sleep(RECONNECT_SECONDS)

    async def _poll_while_needed(self, connection: psycopg.AsyncConnection[Any], woken: asyncio.Event) -> None:
        due: dict[int, float] = {}
        while self._is_needed:
            for index, job in enumerate(self._jobs):
                started = time.monotonic()
                if job.is_needed and due.get(index, 0.0) <= started:
                    more = await job.poll(connection)
                    duration = time.monotonic() - started
                    due[index] = started + max(0.0 if more else job.seconds, duration / job.max_duty_cycle)
            next_due = min((due.get(index, 0.0) for index, job in enumerate(self._jobs) if job.is_needed), default=0.0)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(woken.wait(), max(0.0, next_due - time.monotonic()))
            woken.clear()


# The one of this process.
poller = Poller()
