"""What acquire, renew and release cost in a space with 100 live locks, and in one with 100,000.

Measured as CPU time of the database's own process (from /proc, so on Linux only), alternating between the two spaces.
"""

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
from django.db import connection

from locks.actions import tokens
from locks.actions.audit import Actor
from locks.bearer import parse
from locks.engine import requests
from locks.engine.execution import perform
from locks.engine.operations import acquire, inspect, listing, release, renew
from locks.models import Lock, Space, Team

SIZES = (100, 100_000)
ROUNDS = 12
OPERATIONS = 100


@dataclass
class Crowd:
    """A space in which this many locks are held."""

    size: int
    digest: str


def crowd(size: int) -> Crowd:
    team = Team.objects.create(slug=f"crowd-{size}", name=f"Crowd of {size}")
    space = Space.objects.create(team=team, slug="main", name="Main", max_live_locks=10**9)
    plaintext, _token = tokens.issue(
        actor=Actor.of_shell(), space=space, name="bench", scopes=["locks:read", "locks:write"]
    )
    presented = parse(plaintext)
    assert presented is not None
    digest = presented.digest.hex()
    for start in range(0, size, 1000):
        names = [f"held/{number:07}" for number in range(start, min(start + 1000, size))]
        perform(acquire([requests.Acquire(digest=digest, name=name, ttl_seconds=86_400) for name in names]))
    return Crowd(size, digest)


def cpu_microseconds() -> float:
    """What the process behind our connection has used so far."""
    raw: psycopg.Connection[Any] = connection.connection
    return int(Path(f"/proc/{raw.info.backend_pid}/schedstat").read_text().split()[0]) / 1000


def cost(work: Callable[[int], Any], serial: Iterator[int]) -> float:
    before = cpu_microseconds()
    for _ in range(OPERATIONS):
        work(next(serial))
    return (cpu_microseconds() - before) / OPERATIONS


def verbs(space: Crowd, leases: dict[str, UUID]) -> dict[str, Callable[[int], Any]]:
    def name(number: int) -> str:
        return f"bench/{number:07}"

    def do_acquire(number: int) -> None:
        asked = requests.Acquire(digest=space.digest, name=name(number), ttl_seconds=600)
        (outcome,) = perform(acquire([asked]))
        assert outcome.lease_id is not None
        leases[outcome.name] = outcome.lease_id

    def do_renew(number: int) -> None:
        asked = requests.Renew(digest=space.digest, name=name(number), lease_id=leases[name(number)])
        assert perform(renew([asked]))[0].verdict == "renewed"

    def do_release(number: int) -> None:
        asked = requests.Release(digest=space.digest, name=name(number), lease_id=leases.pop(name(number)))
        assert perform(release([asked]))[0].verdict == "released"

    def do_inspect(number: int) -> None:
        perform(inspect([requests.Inspect(digest=space.digest, name=name(number))]))

    def do_list(number: int) -> None:
        perform(listing(requests.Listing(digest=space.digest, prefix="held/00000", limit=100)))

    return {"acquire": do_acquire, "renew": do_renew, "release": do_release, "inspect": do_inspect, "list": do_list}


def heap_only_share(space: Crowd) -> float:
    """Of two thousand heartbeats, how many touched no index."""
    held = Lock.objects.filter(space__team__slug=f"crowd-{space.size}", lease_id__isnull=False)
    asked = [
        requests.Renew(digest=space.digest, name=name, lease_id=lease_id)
        for name, lease_id in held.values_list("name", "lease_id")[:2000]
    ]
    before = _updates()
    for one in asked:
        perform(renew([one]))
    updated, heap_only = (now - then for now, then in zip(_updates(), before, strict=True))
    return heap_only / updated


def _updates() -> tuple[int, int]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")
        cursor.execute("SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'octo_lock'")
        found: tuple[int, int] = cursor.fetchone()
        return found


def measure() -> Iterator[str]:
    crowds = [crowd(size) for size in SIZES]
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE octo_lock")
    measured: dict[tuple[str, int], list[float]] = {}
    for round_ in range(ROUNDS):
        for space in crowds:
            work = verbs(space, {})
            for verb in work:
                serial = iter(range(round_ * OPERATIONS, (round_ + 1) * OPERATIONS))
                measured.setdefault((verb, space.size), []).append(cost(work[verb], serial))
    yield f"{'CPU of the database, µs':<24}" + "".join(f"{size:>10,} locks" for size in SIZES) + f"{'ratio':>8}"
    for verb in ("acquire", "renew", "release", "inspect", "list"):
        # The first rounds prepare statements and warm the cache.
        small, large = (statistics.median(measured[verb, size][2:]) for size in SIZES)
        yield f"{verb:<24}{small:>16.0f}{large:>16.0f}{large / small:>8.2f}"
    yield f"heartbeats that touched no index: {heap_only_share(crowds[-1]):.1%}"
