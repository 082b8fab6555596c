"""Both lanes in this process, on the test's database, spoken to in HTTP."""

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
from octoadmin.fast_lane.lane import FastLane
from octoadmin.probes.metrics import REGISTRY
from octoadmin.serving.asgi_types import Headers
from octoadmin.serving.sync_lane import SyncLane
from tests import database
from tests.octoadmin.http_client import Reply, ask, listening

HOST = (b"host", b"localhost")
MAX_TALK = 40


class Errand:
    """A turn at the combiner that nobody has sent."""

    disconnected = False

    def __init__(self, asked: requests.Caller) -> None:
        self.asked = asked
        self.rounds = 0
        self.since = 0.0
        self.outcome: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.settle = self.outcome.set_result
        self.fail = self.outcome.set_exception


@dataclass
class Lanes:
    fast: FastLane
    sync: SyncLane
    # Of a server that has both.
    port: int
    token: str = ""

    async def call(self, method: str, path: str, body: Any = None) -> Reply:
        """Through the fast lane, as the server does it."""
        headers, pieces = self.words(body)
        return await ask(self.port, method, path, headers, pieces=pieces)

    def words(self, body: Any = None) -> tuple[Headers, list[bytes]]:
        headers = [HOST, (b"authorization", f"Bearer {self.token}".encode())]
        content = b"" if body is None else json.dumps(body).encode()
        if content:
            headers += [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
        return headers, [content]

    async def acquire(self, name: str, **body: Any) -> Reply:
        return await self.call("POST", f"/locks/{name}/acquire", body or None)

    def ask_combiner(self, name: str) -> "asyncio.Future[Any]":
        """The outcome of an acquire that needs no connection, so that the moment it arrives is the test's to choose."""
        digest = hashlib.sha256(self.token.encode()).hexdigest()
        turn = Errand(requests.Acquire(digest=digest, request_id=new_request_id(), name=name, owner=f"of {name}"))
        self.fast._ways["acquire"].combiner.ask(turn)
        return turn.outcome

    async def until_they_wait(self, count: int) -> list[Any]:
        """Those whose turn at an acquire is still to come, when there are so many."""
        waiting = self.fast._ways["acquire"].combiner._waiting
        while len(waiting) != count:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        return list(waiting)

    def gather(self, count: int) -> None:
        """The next acquires begin when so many have come, however slow this machine is."""
        loop, combiner = asyncio.get_running_loop(), self.fast._ways["acquire"].combiner
        combiner._enough, combiner._pause = count, float(MAX_TALK)
        if combiner._looking is not None:
            combiner._looking.cancel()
        combiner._looking = loop.call_later(MAX_TALK, combiner._look, loop)

    def begin(self) -> None:
        """With the acquires that have come."""
        self.fast._ways["acquire"].combiner._begin(asyncio.get_running_loop())


@asynccontextmanager
async def running_lanes(token: str = "", *, connections: int = 1) -> AsyncIterator[Lanes]:
    sync = SyncLane(WSGIHandler(), threads=2, trusted_proxies=[])
    fast = FastLane(sync, connections=connections)
    sync.start()
    try:
        async with listening(sync, lane=fast) as port:
            yield Lanes(fast, sync, port, token)
    finally:
        await fast.stop(seconds=5)
        await asyncio.to_thread(sync.stop)


def on_lanes(token: str, talk: Callable[[Lanes], Awaitable[Any]], **options: Any) -> Any:
    async def main() -> Any:
        async with asyncio.timeout(MAX_TALK), running_lanes(token, **options) as lanes:
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
    query = """SELECT FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'octoadmin fast lane' AND wait_event_type = 'Lock'"""
    async with await psycopg.AsyncConnection.connect(conninfo, autocommit=True) as observer:
        while not (await observer.execute(query)).rowcount:  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def counted(metric: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(metric, labels) or 0.0
