"""Requests that wait until an entry of the store is written: on the event loop, without a thread or a connection each.

A write to a layer for which a request waits sends a notification with the path, so exactly the requests for that path
are checked. That only makes it faster: every second all of them are checked, which also finds writes whose statement
began before the request waited, tokens that were revoked, and works where notifications do not arrive.
"""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from locks.engine.verdicts import Verdict
from locks.metrics import store_waiting
from locks.queue.on_demand_task import OnDemandTask
from locks.queue.shared_connection import SharedConnection
from locks.queue.wait_queue import ClientDisconnected, ShuttingDown
from locks.runs import kv

CHANNEL = "octo_kv"
POLL_SECONDS = 1.0
# How long writes to a layer notify after the last request waited for one of its entries.
MARK_SECONDS = 30
MAX_BATCH_SIZE = 200
MAX_WAITING = 20_000
_ID_LENGTH = 36


class TooManyWaiting(Exception):
    pass


@dataclass(eq=False, slots=True)
class PendingRead:
    request: kv.KvGet
    layer_id: UUID
    result: "asyncio.Future[kv.KvFound]"


class KvWaiters:
    """Lives on the event loop of a server process."""

    def __init__(self) -> None:
        self._by_path: dict[tuple[UUID, str], set[PendingRead]] = {}
        self._to_check: dict[PendingRead, None] = {}
        self._marked_until: dict[UUID, float] = {}
        self._connection = SharedConnection(purpose="store waiters", lock_timeout="2s")
        self._task = OnDemandTask(
            purpose="store waiters", interval=POLL_SECONDS, tick=self._tick, is_needed=lambda: bool(self._by_path),
            channel=CHANNEL, on_notification=self._notified, connection=self._connection,
        )  # fmt: skip
        self._is_closed = False
        self._count = 0

    def __len__(self) -> int:
        return self._count

    async def wait(
        self, request: kv.KvGet, *, layer_id: UUID, seconds: float, disconnected: "asyncio.Future[None]"
    ) -> kv.KvFound | None:
        """The entry once it has `min_version`, or the refusal; None if the time is up. Raises ClientDisconnected,
        ShuttingDown, TooManyWaiting and Unavailable."""
        if self._is_closed:
            raise ShuttingDown
        if self._count >= MAX_WAITING:
            raise TooManyWaiting
        pending = PendingRead(request, layer_id, asyncio.get_running_loop().create_future())
        key = (layer_id, request.path)
        self._by_path.setdefault(key, set()).add(pending)
        self._count += 1
        store_waiting.set(self._count)
        # It may have been written since the request was first answered.
        self._check_soon((pending,))
        try:
            either: set[asyncio.Future[Any]] = {pending.result, disconnected}
            await asyncio.wait(either, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if pending.result.done():
                return pending.result.result()
            if disconnected.done():
                raise ClientDisconnected
            return None
        finally:
            self._count -= 1
            store_waiting.set(self._count)
            self._to_check.pop(pending, None)
            waiting = self._by_path[key]
            waiting.discard(pending)
            if not waiting:
                del self._by_path[key]
            pending.result.cancel()

    async def read(self, request: kv.KvGet) -> kv.KvFound:
        """On the shared connection. Raises Unavailable."""
        (row,) = await self._connection.run(kv.get([request]))
        return row

    async def close(self) -> None:
        """All requests get ShuttingDown."""
        self._is_closed = True
        for pending in self._pending():
            if not pending.result.done():
                pending.result.set_exception(ShuttingDown())
        await self._task.stop()

    def _pending(self) -> list[PendingRead]:
        return [pending for waiting in self._by_path.values() for pending in waiting]

    def _check_soon(self, pending: Collection[PendingRead]) -> None:
        if not pending:
            return
        self._to_check.update(dict.fromkeys(pending))
        self._task.wake()
        self._task.ensure_running()

    async def _tick(self, *, is_due: bool) -> None:
        if is_due:
            self._to_check.update(dict.fromkeys(self._pending()))
        await self._mark()
        await self._check()

    async def _mark(self) -> None:
        """Before the entries are read: a write that the read does not see, and that begins later, notifies."""
        now = asyncio.get_running_loop().time()
        layers = {layer for layer, _ in self._by_path}
        self._marked_until = {layer: until for layer, until in self._marked_until.items() if layer in layers}
        unmarked = [layer for layer in layers if self._marked_until.get(layer, 0) < now + MARK_SECONDS / 2]
        if unmarked:
            await self._connection.run(kv.mark_waited(unmarked, seconds=MARK_SECONDS))
            self._marked_until.update(dict.fromkeys(unmarked, now + MARK_SECONDS))

    async def _check(self) -> None:
        while self._to_check:
            batch = list(self._to_check)[:MAX_BATCH_SIZE]
            for pending in batch:
                del self._to_check[pending]
            rows = await self._connection.run(kv.get([pending.request for pending in batch]))
            for pending, row in zip(batch, rows, strict=True):
                if row.verdict != Verdict.UNKNOWN and not pending.result.done():
                    pending.result.set_result(row)

    def _notified(self, payload: str) -> None:
        """The layer and the path; without a path, an actor of the layer has ended."""
        layer_id, path = UUID(payload[:_ID_LENGTH]), payload[_ID_LENGTH:]
        if path:
            self._check_soon(self._by_path.get((layer_id, path), ()))
        else:
            self._check_soon([pending for pending in self._pending() if pending.layer_id == layer_id])


kv_waiters = KvWaiters()
