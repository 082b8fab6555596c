"""The fast path and Django in this process, on the test's database, reached over HTTP."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from django.core.handlers.wsgi import WSGIHandler
from django.db import connection

from locks.api.errors import new_request_id
from locks.engine import requests
from locks.metrics import REGISTRY
from octoadmin.batching.application import BatchingApplication
from octoadmin.batching.batcher import BatchItem, Worker
from octoadmin.http.asgi_types import Headers, Message
from octoadmin.wsgi_bridge.bridge import WSGIBridge
from tests import database
from tests.octoadmin.http_client import Reply, ask, listening
from tests.polling import async_until

HOST = (b"host", b"localhost")
TEST_SECONDS = 40


async def never_disconnects() -> Message:
    await asyncio.Event().wait()
    raise AssertionError


@dataclass
class Paths:
    batching: BatchingApplication
    bridge: WSGIBridge
    # Of a server with both.
    port: int
    token: str = ""

    async def call(self, method: str, path: str, body: Any = None) -> Reply:
        headers, pieces = self.request_parts(body)
        return await ask(self.port, method, path, headers, pieces=pieces)

    def request_parts(self, body: Any = None) -> tuple[Headers, list[bytes]]:
        headers = [HOST, (b"authorization", f"Bearer {self.token}".encode())]
        content = b"" if body is None else json.dumps(body).encode()
        if content:
            headers += [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
        return headers, [content]

    async def acquire(self, name: str, **body: Any) -> Reply:
        return await self.call("POST", f"/locks/{name}/acquire", body or None)

    def submit(self, name: str, *, space_id: int | None = None) -> "asyncio.Future[Any]":
        """An acquire that needs no connection to the server, so that the test decides when it arrives."""
        digest = hashlib.sha256(self.token.encode()).hexdigest()
        request = requests.Acquire(digest=digest, request_id=new_request_id(), name=name, owner=f"of {name}")
        return self.batching.routes["acquire"].batcher.submit(request, never_disconnects, space_id=space_id)

    async def until_waiting(self, count: int) -> list[BatchItem]:
        """The acquires that wait for the next batch, as soon as there are so many."""
        waiting = self.batching.routes["acquire"].batcher._waiting
        await async_until(lambda: len(waiting) == count)
        return list(waiting)

    def delay_batch(self, size: int) -> None:
        """The next batch of acquires starts when it has so many requests, however slow this machine is."""
        loop, batcher = asyncio.get_running_loop(), self.batching.routes["acquire"].batcher
        self._busy = Worker()
        self._busy.since = loop.time() + TEST_SECONDS
        batcher._busy.add(self._busy)
        if batcher._watchdog_timer is not None:
            batcher._watchdog_timer.cancel()
        batcher._watchdog_timer = loop.call_later(TEST_SECONDS, batcher._watchdog, loop)
        self._starting = asyncio.ensure_future(self.until_waiting(size))
        self._starting.add_done_callback(lambda _: self.start_batch())

    def start_batch(self) -> None:
        """With the acquires that have come."""
        batcher = self.batching.routes["acquire"].batcher
        if self._busy in batcher._busy:
            batcher._busy.remove(self._busy)
            self._starting.cancel()
            batcher._start(asyncio.get_running_loop())


@asynccontextmanager
async def running_paths(token: str = "", *, connections: int = 1) -> AsyncIterator[Paths]:
    bridge = WSGIBridge(WSGIHandler(), threads=3, trusted_proxies=[])
    batching = BatchingApplication(bridge, connections=connections)
    bridge.start()
    try:
        async with listening(batching) as port:
            yield Paths(batching, bridge, port, token)
    finally:
        await batching.stop(seconds=5)
        await asyncio.to_thread(bridge.stop)


def on_paths(token: str, test: Callable[[Paths], Awaitable[Any]], **options: Any) -> Any:
    async def main() -> Any:
        async with asyncio.timeout(TEST_SECONDS), running_paths(token, **options) as paths:
            return await test(paths)

    return asyncio.run(main())


@asynccontextmanager
async def row_locked(name: str) -> AsyncIterator[None]:
    """Another transaction holds the lock's row."""
    conninfo = database.conninfo(connection.settings_dict["NAME"])
    async with await psycopg.AsyncConnection.connect(conninfo) as other:
        found = await other.execute("SELECT FROM octo_lock WHERE name = %s FOR UPDATE", [name])
        assert found.rowcount == 1
        yield


async def until_blocked() -> None:
    """Returns when a batch statement waits for another transaction's row."""
    conninfo = database.conninfo(connection.settings_dict["NAME"])
    query = """SELECT FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'octoadmin batching' AND wait_event_type = 'Lock'"""
    async with await psycopg.AsyncConnection.connect(conninfo, autocommit=True) as observer:
        while not (await observer.execute(query)).rowcount:  # noqa: ASYNC110 -- Postgres has no event for it
            await asyncio.sleep(0.005)


def counted(metric: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(metric, labels) or 0.0
