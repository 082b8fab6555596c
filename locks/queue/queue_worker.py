"""The background task of the requests that wait in this process: sends heartbeats, and claims the leases handed to
them."""

import asyncio
from collections.abc import Awaitable, Callable
from uuid import UUID

from locks.engine.handover import (
    HEARTBEAT_SECONDS,
    claim_handovers,
    hand_over_free_names,
    server_heartbeat,
    waiters_of,
)
from locks.engine.results import Handover
from locks.queue.on_demand_task import OnDemandTask
from locks.queue.shared_connection import SharedConnection

# Every so many heartbeats it also checks for entries that were lost.
HEARTBEATS_PER_CHECK = 3


class QueueWorker:
    """`is_needed` is true for requests that join the queue, `waiting` are those that have joined it."""

    def __init__(
        self, server_id: UUID, *, is_needed: Callable[[], bool], waiting: Callable[[], set[int]],
        deliver: Callable[[Handover], None], mark_lost: Callable[[int], None], on_tick: Callable[[], Awaitable[None]],
    ) -> None:  # fmt: skip
        self._server_id = server_id
        self._waiting = waiting
        self._deliver = deliver
        self._mark_lost = mark_lost
        self._on_tick = on_tick
        self._connection = SharedConnection(purpose="queue worker", lock_timeout="250ms")
        self._task = OnDemandTask(
            purpose="queue worker", interval=HEARTBEAT_SECONDS, tick=self._tick, is_needed=is_needed,
            channel=f"octo_handover_{server_id.hex}", on_notification=lambda _: self._task.wake(),
            connection=self._connection,
        )  # fmt: skip
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
        self._task.ensure_running()

    async def claim_handovers(self) -> None:
        """Raises Unavailable."""
        for handover in await self._connection.run(claim_handovers(self._server_id)):
            self._deliver(handover)

    async def stop(self) -> None:
        await self._task.stop()

    async def _tick(self, *, is_due: bool) -> None:
        # It may be woken a hundred times a second, and need not send a heartbeat each time.
        if is_due:
            await self._heartbeat()
        else:
            await self.claim_handovers()
        await self._on_tick()

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
