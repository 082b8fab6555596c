"""Both lanes in this process, on the test's database, spoken to in ASGI."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from django.core.handlers.wsgi import WSGIHandler
from django.db import connection

from octoadmin.fast_lane.lane import FastLane
from octoadmin.probes.metrics import REGISTRY
from octoadmin.serving.sync_lane import SyncLane
from tests import database
from tests.octoadmin.asgi_client import Client, Reply, request_scope


@dataclass
class Lanes:
    fast: FastLane
    sync: SyncLane
    token: str = ""
    # For a test that is not asynchronous itself.
    runner: asyncio.Runner | None = None

    async def ask(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Reply:
        client = Client(chunks=[body])
        fields = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]
        await self.send(request_scope(path, method=method, headers=fields), client)
        return client.reply

    async def call(self, method: str, path: str, body: Any = None, *, client: Client | None = None) -> Reply:
        """Through the fast lane, as the server does it."""
        headers = [(b"host", b"localhost"), (b"authorization", f"Bearer {self.token}".encode())]
        content = b"" if body is None else json.dumps(body).encode()
        if content:
            headers += [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
        client = client or Client()
        client._chunks = [content]
        await self.send(request_scope(path, method=method, headers=headers), client)
        return client.reply

    async def acquire(self, name: str, **body: Any) -> Reply:
        return await self.call("POST", f"/locks/{name}/acquire", body or None)

    async def send(self, scope: dict[str, Any], client: Client) -> None:
        await (self.fast.route(scope) or self.sync)(scope, client.receive, client.send)


@asynccontextmanager
async def running_lanes(token: str = "", *, connections: int = 1) -> AsyncIterator[Lanes]:
    sync = SyncLane(WSGIHandler(), threads=2, trusted_proxies=[])
    lanes = Lanes(FastLane(sync, connections=connections), sync, token)
    sync.start()
    try:
        yield lanes
    finally:
        await lanes.fast.stop(seconds=5)
        await asyncio.to_thread(sync.stop)


def on_lanes(token: str, talk: Callable[[Lanes], Awaitable[Any]], **options: Any) -> Any:
    async def main() -> Any:
        async with asyncio.timeout(40), running_lanes(token, **options) as lanes:
            return await talk(lanes)

    return asyncio.run(main())


@asynccontextmanager
async def row_locked(name: str) -> AsyncIterator[None]:
    """Somebody else is working on this lock, and takes their time."""
    conninfo = database.conninfo(connection.settings_dict["NAME"])
    async with await psycopg.AsyncConnection.connect(conninfo) as other:
        found = await other.execute("SELECT FROM octo_lock WHERE name = %s FOR UPDATE", [name])
        assert found.rowcount == 1
        yield


async def somebody_waits() -> None:
    """Returns when a statement of the fast lane waits for somebody else's row."""
    conninfo = database.conninfo(connection.settings_dict["NAME"])
    query = "SELECT FROM pg_stat_activity WHERE application_name = 'octoadmin fast lane' AND wait_event_type = 'Lock'"
    async with await psycopg.AsyncConnection.connect(conninfo, autocommit=True) as observer:
        for _ in range(1000):
            if (await observer.execute(query)).rowcount:
                return
    raise AssertionError("nobody waits")


def counted(metric: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(metric, labels) or 0.0
