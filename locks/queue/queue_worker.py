"""The background task of the requests that wait in this process: sends heartbeats, and claims the leases handed to
them.

A notification wakes it when a lock was handed over. That only makes it faster: it also checks several times a
second, so it works where notifications do not arrive, as behind a connection pooler.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from uuid import UUID

import psycopg
import structlog
from django.conf import settings

from locks.engine.async_connection import connect
from locks.engine.execution import Unavailable
from locks.engine.handover import (
    HEARTBEAT_SECONDS,
    claim_handovers,
    hand_over_free_names,
    server_heartbeat,
    waiters_of,
)
from locks.engine.results import Handover
from locks.queue.shared_connection import SharedConnection

# Every so many heartbeats it also checks for entries that were lost.
HEARTBEATS_PER_CHECK = 3
# It keeps running for a while without waiters, so that the next one finds its connections open.
IDLE_SECONDS = 10.0
# Without a notification for so long, the listener checks its connection.
LISTEN_SECONDS = 5.0

_log = structlog.stdlib.get_logger(__name__)


class QueueWorker:
    def __init__(
        self, server_id: UUID, *, waiting: Callable[[], set[int]], deliver: Callable[[Handover], None],
        mark_lost: Callable[[int], None], on_tick: Callable[[], Awaitable[None]],
    ) -> None:  # fmt: skip
        self._server_id = server_id
        self._waiting = waiting
        self._deliver = deliver
        self._mark_lost = mark_lost
        self._on_tick = on_tick
        self._connection = SharedConnection(purpose="queue worker", lock_timeout="250ms")
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._last_heartbeat = float("-inf")
        self._heartbeats = 0

    @property
    def has_run(self) -> bool:
        return self._last_heartbeat > float("-inf")

    async def ensure_running(self) -> None:
        """Before a request is enqueued: handovers go only to servers with a recent heartbeat. Raises Unavailable."""
        now = asyncio.get_running_loop().time()
        if now - self._last_heartbeat > 2 * HEARTBEAT_SECONDS:
            await self._connection.run(server_heartbeat(self._server_id))
            self._last_heartbeat = now
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    async def claim_handovers(self) -> None:
        """Raises Unavailable."""
        for handover in await self._connection.run(claim_handovers(self._server_id)):
            self._deliver(handover)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await self._connection.close()

    async def _run(self) -> None:
        listener = asyncio.create_task(self._listen())
        loop = asyncio.get_running_loop()
        next_heartbeat = last_needed = loop.time()
        try:
            while loop.time() - last_needed < IDLE_SECONDS:
                if self._waiting():
                    last_needed = loop.time()
                try:
                    if self._woken.is_set():
                        self._woken.clear()
                        await self.claim_handovers()
                    # It may be woken a hundred times a second, and need not send a heartbeat each time.
                    if loop.time() >= next_heartbeat:
                        next_heartbeat = loop.time() + HEARTBEAT_SECONDS
                        await self._heartbeat()
                    await self._on_tick()
                except Unavailable as error:
                    _log.warning("the queue worker cannot reach the database", error=str(error).strip())
                except Exception:
                    # Without the next ticks no waiting request of this process would be handed a lock.
                    _log.exception("the queue worker failed")
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._woken.wait(), max(next_heartbeat - loop.time(), 0))
        finally:
            listener.cancel()
            await asyncio.shield(self._connection.close())

    async def _heartbeat(self) -> None:
        now = asyncio.get_running_loop().time()
        result = await self._connection.run(server_heartbeat(self._server_id))
        self._last_heartbeat = now
        if result.handed:
            await self.claim_handovers()
        known = self._waiting()
        if not known:
            return
        await self._connection.run(hand_over_free_names(self._server_id))
        self._heartbeats += 1
        if self._heartbeats % HEARTBEATS_PER_CHECK == 0:
            for waiter_id in known - set(await self._connection.run(waiters_of(self._server_id))):
                self._mark_lost(waiter_id)

    async def _listen(self) -> None:
        channel = f"octo_handover_{self._server_id.hex}"
        # A pooler in transaction mode has no session that could listen.
        while settings.PREPARED_STATEMENTS:
            try:
                async with await connect(purpose="queue listener") as connection:
                    await connection.execute(f"LISTEN {channel}".encode())
                    while True:
                        async for _ in connection.notifies(timeout=LISTEN_SECONDS):
                            self._woken.set()
                        # Without it a connection to a frozen server would never end.
                        await connection.confirm_primary()
            except (psycopg.Error, OSError) as error:
                _log.warning("the queue worker gets no notifications and polls", error=str(error).strip())
            await asyncio.sleep(1)
