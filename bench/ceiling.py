"""What PostgreSQL pays for a claim and its release, in batches as the server sends them: the ceiling of one database.

CPU time of all processes of the cluster, so that the writing of the log counts (from /proc, so on Linux only).
"""

import asyncio
import itertools
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
from django.db import connections

from bench.setup import Environment
from locks.engine import requests
from locks.engine.execution import run_async
from locks.engine.operations import acquire, release
from locks.postgresql.connections import AsyncConnection

BATCH_SIZES = (1, 10, 40)
PAIRS = 8_000
WARM_UP_PAIRS = 400
_names = itertools.count()


def measure(environment: Environment) -> dict[int, float]:
    """Microseconds of CPU for each pair, by batch size."""
    connections.close_all()
    return asyncio.run(_measure(environment.cluster.conninfo(), environment.postgres, environment.digest))


async def _measure(conninfo: str, cluster: psutil.Process, digest: str) -> dict[int, float]:
    costs = {}
    # As the server connects for the engine's statements.
    async with await AsyncConnection.connect(conninfo, autocommit=True, options="-c enable_seqscan=off") as connection:
        for size in BATCH_SIZES:
            await _run_pairs(connection, digest, WARM_UP_PAIRS, size)
            before = _cpu_us(cluster)
            await _run_pairs(connection, digest, PAIRS, size)
            costs[size] = (_cpu_us(cluster) - before) / PAIRS
    return costs


async def _run_pairs(connection: AsyncConnection, digest: str, pairs: int, size: int) -> None:
    for _ in range(pairs // size):
        names = [f"ceiling/{next(_names) % 5_000:04}" for _ in range(size)]
        leases = await run_async(
            connection, acquire([requests.Acquire(digest=digest, name=name, ttl_seconds=600) for name in names])
        )
        ends = [
            requests.Release(digest=digest, name=lease.name, lease_id=lease.lease_id)
            for lease in leases
            if lease.lease_id is not None
        ]
        assert len(ends) == size
        assert {each.verdict for each in await run_async(connection, release(ends))} == {"released"}


def _cpu_us(cluster: psutil.Process) -> float:
    used = 0
    for process in (cluster, *cluster.children()):
        # An autovacuum worker may just have ended.
        with suppress(FileNotFoundError):
            used += int(Path(f"/proc/{process.pid}/schedstat").read_text().split()[0])
    return used / 1000


def lines(costs: dict[int, float]) -> Iterator[str]:
    yield "| pairs in a batch | database CPU of a pair, µs | requests per second and core |"
    yield "|---:|---:|---:|"
    for size, cost in costs.items():
        yield f"| {size} | {cost:.0f} | {2e6 / cost:,.0f} |"
