"""What a lease costs with 100, 10,000, 100,000 and 1,000,000 locks in the table.

A database for each size, taken in turn, so that what slows the machine slows all of them. Measured as CPU time of the
database's own process (from /proc, so on Linux only), and asked one by one.
"""

import itertools
import statistics
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from django.db import connections
from psycopg.rows import args_row

from bench.furnishing import another_database
from bench.sides import Place
from locks.engine import requests
from locks.engine.operations import Operation, acquire, inspect, listing, release, renew

SIZES = (100, 10_000, 100_000, 1_000_000)
VERBS = ("acquire", "renew", "release", "inspect", "list")
ROUNDS = 10
OPERATIONS = 25
_names = itertools.count()

# Held locks as acquire leaves them behind, without a million statements.
_FILL = """
    INSERT INTO octo_lock (
        space_id, name, fencing_token, lease_id, holder_id, token_id, owner, metadata, ttl_seconds, acquired_at,
        renewed_at, expires_at, renewals, next_sweep_at, lock_delay_seconds, created_at, updated_at
    )
    SELECT
        token.space_id, 'held/' || lpad(number::text, 7, '0'), number, gen_random_uuid(), 'h_filling', token.id,
        'bench', 'host=runner-7', 86400, now(), now(), now() + interval '1 day', 0, now() + interval '1 day', 0,
        now(), now()
    FROM generate_series(1, %s) AS number, octo_token AS token
    WHERE token.digest = decode(%s, 'hex')
"""


@dataclass
class Crowd:
    """A database in which so many locks are held."""

    size: int
    connection: psycopg.Connection[Any]
    digest: str
    leases: list[Any] = field(default_factory=list)
    micros: dict[str, list[float]] = field(default_factory=dict)

    def perform(self, operation: Operation[Any]) -> Any:
        try:
            statement, parameters = next(operation)
            while True:
                cursor = psycopg.RawCursor(self.connection, row_factory=args_row(statement.row))
                cursor.execute(statement.sql, parameters, prepare=statement.prepared, binary=True)
                statement, parameters = operation.send(cursor.fetchall())
        except StopIteration as stop:
            return stop.value

    def cpu_micros(self) -> float:
        pid = self.connection.info.backend_pid
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1000

    def turn(self, verb: str) -> None:
        before = self.cpu_micros()
        for place in range(OPERATIONS):
            self._one(verb, place)
        self.micros.setdefault(verb, []).append((self.cpu_micros() - before) / OPERATIONS)

    def _one(self, verb: str, place: int) -> None:
        match verb:
            case "acquire":
                asked = requests.Acquire(digest=self.digest, name=f"bench/{next(_names):07}", ttl_seconds=600)
                self.leases.append(self.perform(acquire([asked]))[0])
            case "renew":
                lease = self.leases[place]
                self.perform(renew([requests.Renew(digest=self.digest, name=lease.name, lease_id=lease.lease_id)]))
            case "release":
                lease = self.leases.pop()
                asked_back = requests.Release(digest=self.digest, name=lease.name, lease_id=lease.lease_id)
                assert self.perform(release([asked_back]))[0].verdict == "released"
            case "inspect":
                self.perform(inspect([requests.Inspect(digest=self.digest, name="held/0000042")]))
            case "list":
                self.perform(listing(requests.Listing(digest=self.digest, prefix="held/00000", limit=100)))

    def median(self, verb: str) -> float:
        # The first rounds prepare statements and warm the cache.
        return statistics.median(self.micros[verb][2:])


def measure(place: Place, *, sizes: tuple[int, ...] = SIZES) -> list[Crowd]:
    connections.close_all()
    with ExitStack() as stack:
        crowds = [stack.enter_context(_crowd(place, size)) for size in sizes]
        for round_ in range(ROUNDS):
            print(f"\rgrowth: round {round_ + 1}/{ROUNDS}   ", end="", file=sys.stderr)
            for verb in VERBS:
                for crowd in crowds if round_ % 2 else reversed(crowds):
                    crowd.turn(verb)
        print(f"\r{'':40}\r", end="", file=sys.stderr)
        return crowds


def database_of(size: int) -> str:
    return f"growth_{size}"


@contextmanager
def _crowd(place: Place, size: int) -> Iterator[Crowd]:
    conninfo = another_database(place.cluster, database_of(size), template="octoadmin")
    # As the server connects: no plan may read all locks.
    with psycopg.connect(conninfo, autocommit=True, options="-c enable_seqscan=off") as connection:
        connection.execute(_FILL, [size, place.digest])
        connection.execute("VACUUM ANALYZE octo_lock")
        yield Crowd(size, connection, place.digest)


def lines(crowds: list[Crowd]) -> Iterator[str]:
    sizes = " | ".join(f"{crowd.size:,} locks" for crowd in crowds)
    yield f"| CPU of the database, µs | {sizes} | largest ÷ smallest |"
    yield "|---|" + "---:|" * (len(crowds) + 1)
    for verb in VERBS:
        costs = [crowd.median(verb) for crowd in crowds]
        yield f"| {verb} | " + " | ".join(f"{cost:.0f}" for cost in costs) + f" | {costs[-1] / costs[0]:.2f} |"
