"""A well-behaved space beside a hostile one: it loses no lease, and its calls stay nearly as fast as alone.

    python -m tests.torture.neighbour --seconds 60

starts an Octoadmin of its own, measures the well-behaved space alone for a third of the time and beside the hostile one
for the rest, prints both, and fails if a lease was lost, an answer broke the contract, or a p99 is more than three
times as long.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import quantiles

from locks.api.errors import Code
from tests.octoadmin.http_client import Reply
from tests.servers import PROJECT_DIR, START_SECONDS, Api, free_port
from tests.torture import hostile
from tests.torture.connection import Connection

CALLS = ("acquire", "renew", "keepalive")
MAX_RATIO = 3.0
WORKERS = 6
SESSIONS = 4
TTL_SECONDS = 15
PAUSE_SECONDS = 0.05
RENEWALS = 10


@dataclass
class Phase:
    """What the well-behaved space has seen in a time."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: {call: [] for call in CALLS})
    # A renewal or keepalive that was refused because the lease or session had ended.
    lost: list[str] = field(default_factory=list)
    # 429 and 503: the contract allows them, and a client tries again.
    put_off: Counter[int] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)

    def percentile(self, call: str, percent: int) -> float:
        """In milliseconds."""
        return quantiles(self.seconds[call], n=100, method="inclusive")[percent - 1] * 1000


class Worker:
    """Calls the API as a client library does, and records each answer in the current phase."""

    def __init__(self, port: int, token: str, phase: Phase) -> None:
        self.connection = Connection(port, token)
        self.phase = phase

    async def call(self, what: str, path: str, body: object) -> Reply | None:
        """None for an answer that a client would try again."""
        started = time.perf_counter()
        try:
            reply = await self.connection.call("POST", path, body)
        except (OSError, asyncio.IncompleteReadError) as error:
            self.phase.broken.append(f"{path}: {type(error).__name__}")
            return None
        if what in CALLS:
            self.phase.seconds[what].append(time.perf_counter() - started)
        if reply.status in (429, 503):
            self.phase.put_off[reply.status] += 1
            return None
        code = reply.json.get("code") if reply.status >= 400 else None
        if code in (Code.LEASE_NOT_CURRENT, Code.SESSION_EXPIRED, Code.NOT_FOUND):
            self.phase.lost.append(f"{path}: {reply.status} {code}")
        elif reply.status >= 400:
            self.phase.broken.append(f"{path}: {reply.status} {code}")
        return reply

    async def until_answered(self, what: str, path: str, body: object) -> Reply:
        while (reply := await self.call(what, path, body)) is None:  # noqa: ASYNC110 -- tries again
            await asyncio.sleep(PAUSE_SECONDS)
        return reply

    async def hold_locks(self, name: str) -> None:
        """Acquires, renews and releases, again and again."""
        while True:
            lease = (await self.until_answered("acquire", f"/locks/{name}/acquire", {"ttl_seconds": TTL_SECONDS})).json
            if lease.get("status") != "acquired":
                self.phase.broken.append(f"{name}: {lease}")
                return
            held = {"lease_id": lease["lease_id"]}
            for _ in range(RENEWALS):
                await asyncio.sleep(PAUSE_SECONDS)
                await self.call("renew", f"/locks/{name}/renew", held)
            await self.until_answered("release", f"/locks/{name}/release", held)

    async def hold_session(self, name: str) -> None:
        """One lock, held by a session for the whole time."""
        opened = (await self.until_answered("open", "/sessions", {"ttl_seconds": TTL_SECONDS})).json["session_id"]
        await self.until_answered("acquire", f"/locks/{name}/acquire", {"session_id": opened})
        while True:
            await asyncio.sleep(PAUSE_SECONDS)
            await self.call("keepalive", f"/sessions/{opened}/keepalive", {})


async def measure(*, port: int, token: str, hostile_token: str, alone: float, beside: float) -> tuple[Phase, Phase]:
    """The space of `token` alone, and then beside that of `hostile_token`."""
    phases = Phase(), Phase()
    workers = [Worker(port, token, phases[0]) for _ in range(WORKERS + SESSIONS)]
    tasks = [asyncio.create_task(worker.hold_locks(f"job{n}")) for n, worker in enumerate(workers[:WORKERS])]
    tasks += [asyncio.create_task(worker.hold_session(f"long{n}")) for n, worker in enumerate(workers[WORKERS:])]
    attacker = multiprocessing.get_context("spawn").Process(target=hostile.attack, args=(port, hostile_token, beside))
    try:
        await asyncio.sleep(alone)
        attacker.start()
        for worker in workers:
            worker.phase = phases[1]
        await asyncio.to_thread(attacker.join, beside * 2 + 60)
    finally:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(worker.connection.aclose() for worker in workers))
        if attacker.pid is not None:
            attacker.kill()
            attacker.join()
            attacker.close()
    failures = [result for result in results if not isinstance(result, asyncio.CancelledError)]
    if failures:
        raise RuntimeError(f"{failures} {phases}")
    return phases


_SET_UP = """
import json
from locks.models import Space, Team
from locks.services import tokens
from locks.services.audit import Actor
issued = []
for slug, scopes in (("good", ("locks:read", "locks:write")),
                     ("hostile", ("locks:read", "locks:write", "audit:read", "webhooks:manage"))):
    space = Space.objects.create(team=Team.objects.create(slug=slug, name=slug), slug="main", name="Main")
    issued.append(tokens.issue(actor=Actor.of_shell(), space=space, name=slug, scopes=scopes)[0])
print(json.dumps(issued))
"""


@contextmanager
def running_octoadmin(port: int) -> Iterator[tuple[str, str]]:
    """`make up` in a directory of its own: the tokens of a good and a hostile space."""
    with tempfile.TemporaryDirectory(prefix="octo-neighbour-") as directory:
        environment = os.environ | {
            "OCTO_DATA_DIR": directory, "PORT": str(port), "HOST": "127.0.0.1", "DATABASE_URL": "",
            "OCTO_WEBHOOK_NETWORKS": "127.0.0.0/8", "LOG_LEVEL": "error",
        }  # fmt: skip
        manage = [sys.executable, "manage.py"]
        with subprocess.Popen(
            [*manage, "up", "--stop-with-parent"], cwd=PROJECT_DIR, env=environment, stdout=subprocess.DEVNULL
        ) as up:
            try:
                _wait_until_healthy(port, up)
                output = subprocess.run(
                    [*manage, "shell", "--verbosity", "0", "-c", _SET_UP],
                    cwd=PROJECT_DIR, env=environment, check=True, capture_output=True, text=True,
                ).stdout  # fmt: skip
                good, bad = json.loads(output)
                yield good, bad
            finally:
                up.send_signal(signal.SIGTERM)


def _wait_until_healthy(port: int, up: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS * 2
    while up.poll() is None:
        try:
            if Api(port).call("GET", "/health").status == 200:
                return
        except OSError:
            pass
        if time.monotonic() > deadline:
            break
        time.sleep(0.2)
    sys.exit("Octoadmin did not start.")


def report(alone: Phase, beside: Phase) -> bool:
    """Prints the figures; false if the hostile space has harmed the other."""
    harmed = bool(beside.lost or beside.broken)
    columns = f"{'calls':>7} {'p50 ms':>8} {'p99 ms':>8}"
    print(f"{'':10} {columns}   beside: {columns} {'ratio':>6}")
    for call in CALLS:
        ratio = beside.percentile(call, 99) / alone.percentile(call, 99)
        harmed |= ratio > MAX_RATIO
        figures = [
            (len(phase.seconds[call]), phase.percentile(call, 50), phase.percentile(call, 99))
            for phase in (alone, beside)
        ]
        before, after = ("{:7} {:8.1f} {:8.1f}".format(*each) for each in figures)
        print(f"{call:10} {before}           {after} {ratio:6.2f}")
    print(f"leases lost {len(beside.lost)}, put off {dict(beside.put_off)}, contract broken {len(beside.broken)}")
    for line in (*beside.lost, *beside.broken):
        print(f"  {line}")
    return not harmed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--port", type=int, default=None, help="of the Octoadmin that it starts")
    arguments = parser.parse_args()
    seconds, port = arguments.seconds, arguments.port or free_port()
    with running_octoadmin(port) as (good, bad):
        alone, beside = asyncio.run(
            measure(port=port, token=good, hostile_token=bad, alone=seconds / 3, beside=seconds * 2 / 3)
        )
    if not report(alone, beside):
        sys.exit("The hostile space has harmed its neighbour.")


if __name__ == "__main__":
    main()
