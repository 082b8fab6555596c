"""What waiting costs: from release to the waiter's answer, and what two thousand who wait take from everybody else.

Against a real server process of its own, over loopback, on the database that DATABASE_URL names.
"""

import asyncio
import json
import os
import statistics
import time
from collections.abc import Iterator
from typing import Any

import psutil
from django.db import connections

from bench.processes import family
from locks.models import Space, Team, Waiter
from locks.services import tokens
from locks.services.audit import Actor
from tests.servers import running_server

PAIRS = 100
ROUNDS = 5
CROWD = 2_000
AT_ONCE = 200
# Many short turns: what slows the machine for a while slows both sides of a turn.
TURNS = 4
SECONDS = 1.5
CLIENTS = 16


class Client:
    """A keep-alive connection."""

    def __init__(self, port: int, token: str) -> None:
        self._port, self._token = port, token
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self, path: str, body: dict[str, Any]) -> None:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        content = json.dumps(body).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {self._token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        self._streams[1].write(head.encode() + content)
        await self._streams[1].drain()

    async def answer(self) -> Any:
        assert self._streams is not None
        head = await self._streams[0].readuntil(b"\r\n\r\n")
        length = next(int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if b"content-length" in line)
        return json.loads(await self._streams[0].readexactly(length))

    async def call(self, path: str, body: dict[str, Any]) -> Any:
        await self.send(path, body)
        return await self.answer()

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()


async def hand_overs(port: int, token: str) -> list[float]:
    """Milliseconds from sending the release to the waiter's answer, a hundred names at a time."""
    took = []
    holder = Client(port, token)
    waiters = [Client(port, token) for _ in range(PAIRS)]
    for round_ in range(ROUNDS):
        names = [f"pair-{round_}-{number}" for number in range(PAIRS)]
        leases = [await holder.call(f"/locks/{name}/acquire", {"ttl_seconds": 600}) for name in names]
        for waiter, name in zip(waiters, names, strict=True):
            await waiter.send(f"/locks/{name}/acquire", {"wait_seconds": 60, "ttl_seconds": 600})
        await until_in_line(PAIRS)
        for waiter, name, lease in zip(waiters, names, leases, strict=True):
            began = time.perf_counter()
            await holder.call(f"/locks/{name}/release", {"lease_id": lease["lease_id"]})
            answer = await waiter.answer()
            assert answer["status"] == "acquired", answer
            took.append((time.perf_counter() - began) * 1000)
    for client in (holder, *waiters):
        client.close()
    return took


async def pairs_per_second(port: int, token: str, label: str) -> float:
    """Acquire and release of names that nobody else wants."""
    deadline = time.perf_counter() + SECONDS

    async def work(number: int) -> int:
        client, done = Client(port, token), 0
        while time.perf_counter() < deadline:
            name = f"{label}-{number}-{done}"
            lease = await client.call(f"/locks/{name}/acquire", {})
            await client.call(f"/locks/{name}/release", {"lease_id": lease["lease_id"]})
            done += 1
        client.close()
        return done

    return sum(await asyncio.gather(*(work(number) for number in range(CLIENTS)))) / SECONDS


async def crowd(port: int, token: str, server: psutil.Process) -> tuple[list[float], list[float], float, float]:
    """Rates without and with a crowd that waits, alternating, and the memory of the server's process in MB."""
    alone, beside = [], []
    await pairs_per_second(port, token, "warm")
    before = memory(server)
    peak = before
    for turn in range(TURNS):
        alone.append(await pairs_per_second(port, token, f"before-{turn}"))
        holder = Client(port, token)
        leases = [
            await holder.call(f"/locks/crowd-{turn}-{number}/acquire", {"ttl_seconds": 600})
            for number in range(CROWD // 20)
        ]
        waiting = await gather_crowd(port, token, [f"crowd-{turn}-{number}" for number in range(len(leases))])
        beside += [await pairs_per_second(port, token, f"beside-{turn}-{again}") for again in range(2)]
        peak = max(peak, memory(server))
        for client in (holder, *waiting):
            client.close()
        await until_in_line(0)
        alone.append(await pairs_per_second(port, token, f"after-{turn}"))
    return alone, beside, before, peak


async def gather_crowd(port: int, token: str, names: list[str]) -> list[Client]:
    """All of them stand in line when it returns: how they get there is not what is measured."""
    crowd = [Client(port, token) for _ in range(CROWD)]
    for start in range(0, CROWD, AT_ONCE):
        for number, client in enumerate(crowd[start : start + AT_ONCE], start):
            await client.send(f"/locks/{names[number % len(names)]}/acquire", {"wait_seconds": 60})
        await until_in_line(min(start + AT_ONCE, CROWD))
    return crowd


async def until_in_line(count: int) -> None:
    async with asyncio.timeout(30):
        while await asyncio.to_thread(_in_line) != count:  # noqa: ASYNC110 -- in another process
            await asyncio.sleep(0.05)


def _in_line() -> int:
    """On a thread of its own, which must not keep its connection: databases are copied later on."""
    try:
        return Waiter.objects.count()
    finally:
        connections.close_all()


def memory(server: psutil.Process) -> float:
    return max(process.memory_info().rss for process in family(server)) / 1e6


def lines() -> Iterator[str]:
    team = Team.objects.create(slug="waiting", name="Waiting")
    space = Space.objects.create(team=team, slug="main", name="Main", requests_per_second=10**6)
    token, _ = tokens.issue(actor=Actor.of_shell(), space=space, name="bench", scopes=["locks:read", "locks:write"])
    with running_server(os.environ["DATABASE_URL"], OCTO_REQUESTS_PER_SECOND="1000000") as server:
        assert server.process is not None
        took = sorted(asyncio.run(hand_overs(server.port, token)))
        alone, beside, before, peak = asyncio.run(crowd(server.port, token, psutil.Process(server.process.pid)))
    ratio = statistics.median(other / one for one, other in zip(alone, beside, strict=True))
    median, p99 = statistics.median(took), took[int(len(took) * 0.99)]
    yield "| what | |"
    yield "|---|---:|"
    yield f"| release to the waiter's answer, {PAIRS} waiters on {PAIRS} names, median | {median:.1f} ms |"
    yield f"| the same, p99 | {p99:.1f} ms |"
    yield f"| pairs per second while {CROWD:,} wait ÷ while nobody does, {CLIENTS} connections | {ratio:.2f} |"
    yield f"| memory of the server's process before, and while {CROWD:,} wait | {before:.0f} and {peak:.0f} MB |"
