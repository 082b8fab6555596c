"""The cost of waiting requests: the time of a handover, and what two thousand waiters take from other requests."""

import asyncio
import json
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from django.db import connections

from bench.contenders import octoadmin_server
from bench.processes import process_tree
from bench.samples import percentiles
from bench.setup import create_token
from locks.models import Waiter

HANDOVERS = 100
HANDOVER_ROUNDS = 5
WAITERS = 2_000
# Waiters are sent in groups, and the next group only when the previous one is in the queue.
GROUP_SIZE = 200
ROUNDS = 3
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

    async def receive(self) -> Any:
        assert self._streams is not None
        head = await self._streams[0].readuntil(b"\r\n\r\n")
        length = next(int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if b"content-length" in line)
        return json.loads(await self._streams[0].readexactly(length))

    async def call(self, path: str, body: dict[str, Any]) -> Any:
        await self.send(path, body)
        return await self.receive()

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()


@dataclass
class Measurement:
    handovers_ms: list[float]
    rates_without: list[float]
    rates_with: list[float]
    memory_before_mb: float
    memory_peak_mb: float


def measure(conninfo: str, directory: Path) -> Measurement:
    token, _digest = create_token("waiting")
    with octoadmin_server(conninfo, directory) as (port, process):
        return asyncio.run(_measure(port, token, process))


async def _measure(port: int, token: str, server: psutil.Process) -> Measurement:
    handovers = await _handovers(port, token)
    await _pairs_per_second(port, token, "warm-up")
    memory = _memory_mb(server)
    measurement = Measurement(handovers, [], [], memory, memory)
    for round_ in range(ROUNDS):
        measurement.rates_without.append(await _pairs_per_second(port, token, f"before-{round_}"))
        clients = await _start_waiters(port, token, round_)
        for part in range(2):
            measurement.rates_with.append(await _pairs_per_second(port, token, f"during-{round_}-{part}"))
        measurement.memory_peak_mb = max(measurement.memory_peak_mb, _memory_mb(server))
        for client in clients:
            client.close()
        await _queue_length_becomes(0)
        measurement.rates_without.append(await _pairs_per_second(port, token, f"after-{round_}"))
    return measurement


async def _handovers(port: int, token: str) -> list[float]:
    """Milliseconds from sending a release to the waiter's response."""
    durations = []
    holder = Client(port, token)
    waiters = [Client(port, token) for _ in range(HANDOVERS)]
    for round_ in range(HANDOVER_ROUNDS):
        names = [f"handover-{round_}-{number}" for number in range(HANDOVERS)]
        leases = [await holder.call(f"/locks/{name}/acquire", {"ttl_seconds": 600}) for name in names]
        for waiter, name in zip(waiters, names, strict=True):
            await waiter.send(f"/locks/{name}/acquire", {"wait_seconds": 60, "ttl_seconds": 600})
        await _queue_length_becomes(HANDOVERS)
        for waiter, name, lease in zip(waiters, names, leases, strict=True):
            started = time.perf_counter()
            await holder.call(f"/locks/{name}/release", {"lease_id": lease["lease_id"]})
            response = await waiter.receive()
            assert response["status"] == "acquired", response
            durations.append((time.perf_counter() - started) * 1000)
    for client in (holder, *waiters):
        client.close()
    return durations


async def _pairs_per_second(port: int, token: str, label: str) -> float:
    """Acquire and release of names without contention."""
    deadline = time.perf_counter() + SECONDS

    async def work(number: int) -> int:
        client, pairs = Client(port, token), 0
        while time.perf_counter() < deadline:
            name = f"{label}-{number}-{pairs}"
            lease = await client.call(f"/locks/{name}/acquire", {})
            await client.call(f"/locks/{name}/release", {"lease_id": lease["lease_id"]})
            pairs += 1
        client.close()
        return pairs

    return sum(await asyncio.gather(*(work(number) for number in range(CLIENTS)))) / SECONDS


async def _start_waiters(port: int, token: str, round_: int) -> list[Client]:
    """Twenty waiters per lock, all of them in the queue; the first client holds the locks."""
    holder = Client(port, token)
    names = [f"queue-{round_}-{number}" for number in range(WAITERS // 20)]
    for name in names:
        await holder.call(f"/locks/{name}/acquire", {"ttl_seconds": 600})
    waiters = [Client(port, token) for _ in range(WAITERS)]
    for start in range(0, WAITERS, GROUP_SIZE):
        for number, waiter in enumerate(waiters[start : start + GROUP_SIZE], start):
            await waiter.send(f"/locks/{names[number % len(names)]}/acquire", {"wait_seconds": 60})
        await _queue_length_becomes(min(start + GROUP_SIZE, WAITERS))
    return [holder, *waiters]


async def _queue_length_becomes(count: int) -> None:
    async with asyncio.timeout(30):
        while await asyncio.to_thread(_queue_length) != count:  # noqa: ASYNC110 -- the queue is in another process
            await asyncio.sleep(0.05)


def _queue_length() -> int:
    """Closes its connection: `growth` copies the database later, which needs it without connections."""
    try:
        return Waiter.objects.count()
    finally:
        connections.close_all()


def _memory_mb(server: psutil.Process) -> float:
    return float(max(process.memory_info().rss for process in process_tree(server)) / 1e6)


def lines(measured: Measurement) -> Iterator[str]:
    p50, p99 = percentiles(measured.handovers_ms)
    ratio = statistics.median(
        during / without for without, during in zip(measured.rates_without, measured.rates_with, strict=True)
    )
    yield "| measurement | |"
    yield "|---|---:|"
    yield f"| release to the waiter's response, {HANDOVERS} names with a waiter each, p50 | {p50:.1f} ms |"
    yield f"| release to the waiter's response, p99 | {p99:.1f} ms |"
    yield f"| pairs/s with {WAITERS:,} waiters ÷ without, {CLIENTS} connections | {ratio:.2f} |"
    yield f"| memory of the server process without waiters | {measured.memory_before_mb:.0f} MB |"
    yield f"| memory of the server process with {WAITERS:,} waiters | {measured.memory_peak_mb:.0f} MB |"
