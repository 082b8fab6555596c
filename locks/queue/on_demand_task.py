"""A background task of this process that runs while requests need it, with a connection that listens to a channel.

A notification wakes it. That only makes it faster: it is due again after each interval, so it works where notifications
do not arrive, as behind a connection pooler.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Protocol

import psycopg
import structlog
from django.conf import settings

from locks.engine.async_connection import connect
from locks.engine.execution import Unavailable
from locks.queue.shared_connection import SharedConnection

# It keeps running for a while without requests, so that the next one finds its connections open.
IDLE_SECONDS = 10.0
# Without a notification for so long, the listener checks its connection.
LISTEN_SECONDS = 5.0

_log = structlog.stdlib.get_logger(__name__)


class Tick(Protocol):
    def __call__(self, *, is_due: bool) -> Awaitable[None]: ...


class OnDemandTask:
    """Calls `tick` when an interval has passed (`is_due`), and when it is woken.

    There is no await between the last check of `is_needed` and `_task = None`, so a request that has called
    `ensure_running`, and makes `is_needed` true from then on, always has a running task.
    """

    def __init__(
        self, *, purpose: str, interval: float, tick: Tick, is_needed: Callable[[], bool], channel: str,
        on_notification: Callable[[str], None], connection: SharedConnection,
    ) -> None:  # fmt: skip
        self._purpose = purpose
        self._interval = interval
        self._tick = tick
        self._is_needed = is_needed
        self._channel = channel
        self._on_notification = on_notification
        self._connection = connection
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_stopped = False

    def ensure_running(self) -> None:
        if self._task is None and not self._is_stopped:
            self._task = asyncio.create_task(self._run())

    def wake(self) -> None:
        self._woken.set()

    async def stop(self) -> None:
        """The tick that runs is completed: what it has claimed would be lost."""
        self._is_stopped = True
        self.wake()
        if self._task is not None:
            await self._task
        await self._connection.close()

    async def _run(self) -> None:
        listener = asyncio.create_task(self._listen())
        loop = asyncio.get_running_loop()
        next_due = last_needed = loop.time()
        try:
            while not self._is_stopped and (self._is_needed() or loop.time() - last_needed < IDLE_SECONDS):
                if self._is_needed():
                    last_needed = loop.time()
                if is_due := loop.time() >= next_due:
                    next_due = loop.time() + self._interval
                self._woken.clear()
                try:
                    await self._tick(is_due=is_due)
                except Unavailable as error:
                    _log.warning(
                        "a background task cannot reach the database", task=self._purpose, error=str(error).strip()
                    )
                except Exception:
                    # Without the next ticks no waiting request of this process would be answered in time.
                    _log.exception("a background task failed", task=self._purpose)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._woken.wait(), max(next_due - loop.time(), 0))
        finally:
            # Before anything is awaited: the next request starts another one.
            self._task = None
            listener.cancel()
            await asyncio.shield(self._connection.close())

    async def _listen(self) -> None:
        # A pooler in transaction mode has no session that could listen.
        while settings.PREPARED_STATEMENTS:
            try:
                async with await connect(purpose=f"{self._purpose} listener") as connection:
                    await connection.execute(f"LISTEN {self._channel}".encode())
                    while True:
                        async for notification in connection.notifies(timeout=LISTEN_SECONDS):
                            self._on_notification(notification.payload)
                        # Without it a connection to a frozen server would never end.
                        await connection.confirm_primary()
            except (psycopg.Error, OSError) as error:
                _log.warning("no notifications: a background task polls", task=self._purpose, error=str(error).strip())
            except Exception:
                _log.exception("the listener of a background task failed", task=self._purpose)
            await asyncio.sleep(1)
