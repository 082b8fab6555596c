"""The cost of each operation with 100, 10,000, 100,000 and 1,000,000 locks in the table.

One database per size, measured in alternating rounds, one request per statement, as CPU time of the database backend
(from /proc, so on Linux only).
"""

import asyncio
import itertools
import statistics
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.db import connections

from bench.setup import FILL_LOCKS, Environment
from locks.engine import requests
from locks.engine.execution import run_async
from locks.engine.operations import acquire, inspect, listing, release, renew
from locks.postgresql.connections import AsyncConnection

SIZES = (100, 10_000, 100_000, 1_000_000)
OPERATIONS = ("acquire", "renew", "release", "inspect", "list")
ROUNDS = 10
# The first rounds prepare statements and fill the cache.
WARM_UP_ROUNDS = 2
OPERATIONS_PER_ROUND = 25
_names = itertools.count()


@dataclass
class Table:
    """A database in which `size` locks are held."""

    size: int
    connection: AsyncConnection
    digest: str
    leases: list[Any] = field(default_factory=list)
    cpu_us: dict[str, list[float]] = field(default_factory=dict)

    async def measure(self, operation: str) -> None:
        before = backend_cpu_us(self.connection)
        for index in range(OPERATIONS_PER_ROUND):
            await self._run(operation, index)
        used = backend_cpu_us(self.connection) - before
        self.cpu_us.setdefault(operation, []).append(used / OPERATIONS_PER_ROUND)

    async def _run(self, operation: str, index: int) -> None:
        match operation:
            case "acquire":
                claim = requests.Acquire(digest=self.digest, name=f"bench/{next(_names):07}", ttl_seconds=600)
                self.leases += await run_async(self.connection, acquire([claim]))
            case "renew":
                lease = self.leases[index]
                renewal = requests.Renew(digest=self.digest, name=lease.name, lease_id=lease.lease_id)
                await run_async(self.connection, renew([renewal]))
            case "release":
                lease = self.leases.pop()
                ending = requests.Release(digest=self.digest, name=lease.name, lease_id=lease.lease_id)
                assert (await run_async(self.connection, release([ending])))[0].verdict == "released"
            case "inspect":
                inspection = requests.Inspect(digest=self.digest, name="held/0000042")
                await run_async(self.connection, inspect([inspection]))
            case "list":
                page = requests.Listing(digest=self.digest, prefix="held/00000", limit=100)
                await run_async(self.connection, listing(page))

    def median(self, operation: str) -> float:
        return statistics.median(self.cpu_us[operation][WARM_UP_ROUNDS:])


def backend_cpu_us(connection: Any) -> float:
    """CPU time of the process that serves a psycopg connection."""
    return int(Path(f"/proc/{connection.info.backend_pid}/schedstat").read_text().split()[0]) / 1000


def measure(environment: Environment, *, sizes: tuple[int, ...] = SIZES) -> list[Table]:
    connections.close_all()
    return asyncio.run(_measure(environment, sizes))


async def _measure(environment: Environment, sizes: tuple[int, ...]) -> list[Table]:
    async with AsyncExitStack() as stack:
        tables = []
        for size in sizes:
            conninfo = environment.copy_database(database_name(size))
            # As the server connects for the engine's statements: no plan may scan the table.
            connection = await stack.enter_async_context(
                await AsyncConnection.connect(conninfo, autocommit=True, options="-c enable_seqscan=off")
            )
            await connection.execute(FILL_LOCKS, {"locks": size, "digest": environment.digest})
            await connection.execute("VACUUM ANALYZE octo_lock")
            tables.append(Table(size, connection, environment.digest))
        for round_ in range(ROUNDS):
            print(f"\rgrowth: round {round_ + 1}/{ROUNDS}   ", end="", file=sys.stderr)
            for operation in OPERATIONS:
                for table in tables if round_ % 2 else reversed(tables):
                    await table.measure(operation)
        print(f"\r{'':40}\r", end="", file=sys.stderr)
        return tables


def database_name(size: int) -> str:
    return f"growth_{size}"


def lines(tables: list[Table]) -> Iterator[str]:
    sizes = " | ".join(f"{table.size:,} locks" for table in tables)
    yield f"| database CPU, µs | {sizes} | largest ÷ smallest |"
    yield "|---|" + "---:|" * (len(tables) + 1)
    for operation in OPERATIONS:
        costs = [table.median(operation) for table in tables]
        yield f"| {operation} | " + " | ".join(f"{cost:.0f}" for cost in costs) + f" | {costs[-1] / costs[0]:.2f} |"
