"""Looks after the requests that wait in this process: says that they are there, and brings them what they were handed.

Woken by a notification when a lock was handed on. That is only quicker: several times a second it looks for itself, so
it does as well where notifications do not arrive, as behind a connection pooler.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from uuid import UUID

import psycopg
import structlog

from locks.engine.async_connection import connect
from locks.engine.execution import Unavailable
from locks.engine.queue import BEAT_SECONDS, claim_handovers, hand_over_free_names, server_heartbeat, waiters_of
from locks.engine.results import Handover
from locks.queue.shared_connection import SharedConnection

# In how many of its looks it also looks for places that were lost: one in so many.
BEATS_TO_COUNT = 3
# With nobody waiting it stays for a while, so that the next one need not wait for its connections.
LINGER_SECONDS = 10.0

_log = structlog.stdlib.get_logger(__name__)


class QueueWorker:
    def __init__(
        self, server_id: UUID, *, waiting: Callable[[], set[int]], deliver: Callable[[Handover], None],
        lose: Callable[[int], None], tidy: Callable[[], Awaitable[None]],
    ) -> None:  # fmt: skip
        self._server_id = server_id
        self._waiting = waiting
        self._deliver = deliver
        self._lose = lose
        self._tidy = tidy
        self._desk = SharedConnection(purpose="waiting", patience="250ms")
        self._woken = asyncio.Event()
        self._work: asyncio.Task[None] | None = None
        self._seen_at = float("-inf")
        self._beats = 0

    @property
    def was_there(self) -> bool:
        return self._seen_at > float("-inf")

    async def ensure_running(self) -> None:
        """Before somebody stands in line: whoever hands locks on must know of this server. Raises Unavailable."""
        now = asyncio.get_running_loop().time()
        if now - self._seen_at > 2 * BEAT_SECONDS:
            await self._desk.perform(server_heartbeat(self._server_id))
            self._seen_at = now
        if self._work is None or self._work.done():
            self._work = asyncio.create_task(self._run())

    async def collect(self) -> None:
        """What was handed to requests of this process. Raises Unavailable."""
        for handed in await self._desk.perform(claim_handovers(self._server_id)):
            self._deliver(handed)

    async def stop(self) -> None:
        if self._work is not None:
            self._work.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._work
        await self._desk.close()

    async def _run(self) -> None:
        listening = asyncio.create_task(self._listen())
        loop = asyncio.get_running_loop()
        beat_at = needed_at = loop.time()
        try:
            while loop.time() - needed_at < LINGER_SECONDS:
                if self._waiting():
                    needed_at = loop.time()
                try:
                    if self._woken.is_set():
                        self._woken.clear()
                        await self.collect()
                    # Woken a hundred times a second, it need not say each time that it is there.
                    if loop.time() >= beat_at:
                        beat_at = loop.time() + BEAT_SECONDS
                        await self._beat()
                    await self._tidy()
                except Unavailable as error:
                    _log.warning("waiting requests cannot be looked after", error=str(error).strip())
                except Exception:
                    # Whatever it is concerns one look. Without the next ones nobody here would be handed anything.
                    _log.exception("waiting requests were not looked after")
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._woken.wait(), max(beat_at - loop.time(), 0))
        finally:
            listening.cancel()
            await asyncio.shield(self._desk.close())

    async def _beat(self) -> None:
        """Says that it is there, and looks for what nobody else has seen to."""
        now = asyncio.get_running_loop().time()
        attended = await self._desk.perform(server_heartbeat(self._server_id))
        self._seen_at = now
        if attended.handed:
            await self.collect()
        known = self._waiting()
        if not known:
            return
        # What became free by the clock alone.
        await self._desk.perform(hand_over_free_names(self._server_id))
        self._beats += 1
        if self._beats % BEATS_TO_COUNT == 0:
            for waiter_id in known - set(await self._desk.perform(waiters_of(self._server_id))):
                self._lose(waiter_id)

    async def _listen(self) -> None:
        channel = f"octo_turn_{self._server_id.hex}"
        while True:
            try:
                async with await connect(purpose="waiting, listens") as connection:
                    await connection.execute(f"LISTEN {channel}".encode())
                    async for _ in connection.notifies():
                        self._woken.set()
            except (psycopg.Error, OSError) as error:
                _log.warning("waiting requests are looked after by the clock alone", error=str(error).strip())
            await asyncio.sleep(1)
