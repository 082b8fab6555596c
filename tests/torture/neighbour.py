"""A well-behaved space beside a hostile one: it loses no lease, and its calls stay nearly as fast as without it.

    python -m tests.torture.neighbour --seconds 60

starts an Octoadmin of its own and measures the well-behaved space in turns: beside the hostile space, and beside a
process that uses as much of the processor as the attackers did, without a request. On a machine that all of them share,
the second shows what the attackers' own work costs, which they would do elsewhere. Calls are not recorded while the
processor time of the processes is read, which would delay them in both kinds of turns. It prints both, and fails if a
lease was lost, an answer broke the contract, or a p99 is more than three times as long.
"""

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import psutil

from tests.servers import PROJECT_DIR, START_SECONDS, Api, free_port
from tests.torture.hostile import Attacker
from tests.torture.well_behaved import CALLS, Phase, Worker

MAX_RATIO = 3.0
WORKERS = 6
SESSIONS = 6
ROUNDS = 3
NICENESS = 10
MEASURED = ("server", "PostgreSQL", "worker")
WARM_UP_SECONDS = 3.0
# Reading the processor time of all processes takes tens of milliseconds of the loop that times the calls.
SETTLE_SECONDS = 0.2
# After an attack, its leases of two seconds end.
PAUSE_SECONDS = 4.0


@dataclass
class Turns:
    """All turns of one kind."""

    phase: Phase = field(default_factory=Phase)
    seconds: float = 0.0
    # Of the attackers, or of the process that stands for them.
    attackers: float = 0.0
    # Of Octoadmin's processes, by name.
    octoadmin: Counter[str] = field(default_factory=Counter)


async def measure(
    *,
    port: int,
    token: str,
    hostile_token: str,
    seconds: float,
    rounds: int = ROUNDS,
    niceness: int = NICENESS,
    up: int | None = None,
) -> tuple[Turns, Turns]:
    """Turns without the hostile space and beside it, of `seconds` each. `up` is the process that Octoadmin's belong
    to."""
    control, beside, unrecorded = Turns(), Turns(), Phase()
    workers = [Worker(port, token, unrecorded) for _ in range(WORKERS + SESSIONS)]
    tasks = [asyncio.create_task(worker.hold_locks(f"job{n}")) for n, worker in enumerate(workers[:WORKERS])]
    tasks += [asyncio.create_task(worker.hold_session(f"long{n}")) for n, worker in enumerate(workers[WORKERS:])]
    try:
        with Attacker(port, hostile_token, niceness=niceness) as attacker:
            await asyncio.sleep(WARM_UP_SECONDS)
            for _ in range(rounds):
                await attacker.prepare()
                share = await _turn(beside, unrecorded, workers, attacker.attack(seconds), up=up)
                await attacker.clean_up()
                await asyncio.sleep(PAUSE_SECONDS)
                await _turn(control, unrecorded, workers, attacker.burn(seconds, share=share), up=up)
    finally:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(worker.connection.aclose() for worker in workers))
    failures = [result for result in results if not isinstance(result, asyncio.CancelledError)]
    if failures:
        raise RuntimeError(f"{failures} {control} {beside}")
    beside.phase.lost += unrecorded.lost
    beside.phase.broken += unrecorded.broken
    return control, beside


async def _turn(
    turns: Turns, unrecorded: Phase, workers: list[Worker], attack: Awaitable[float], *, up: int | None
) -> float:
    """The share of a processor that the attackers have used."""
    before, started = _processor_seconds(up), time.perf_counter()
    # Calls that were under way while the processes were read.
    await asyncio.sleep(SETTLE_SECONDS)
    _record(workers, turns.phase)
    used = await attack
    seconds = time.perf_counter() - started
    _record(workers, unrecorded)
    turns.octoadmin.update(_processor_seconds(up))
    turns.octoadmin.subtract(before)
    turns.seconds += seconds
    turns.attackers += used
    return used / seconds


def _record(workers: list[Worker], phase: Phase) -> None:
    for worker in workers:
        worker.phase = phase


def _processor_seconds(up: int | None) -> Counter[str]:
    """Of server, worker and PostgreSQL, each with its own processes."""
    used: Counter[str] = Counter()
    for child in psutil.Process(up).children() if up else ():
        command = child.cmdline()
        name = "PostgreSQL" if "postgres" in command[0] else command[-1].removeprefix("octoadmin.run.")
        # Also of those that have ended, such as connections to PostgreSQL.
        used[name] += child.cpu_times().children_user + child.cpu_times().children_system
        for process in (child, *child.children()):
            with suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                used[name] += times.user + times.system
    return used


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
def running_octoadmin(port: int) -> Iterator[tuple[int, str, str]]:
    """`make up` in a directory of its own: its process, and the tokens of a good and a hostile space."""
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
                yield up.pid, good, bad
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


def report(control: Turns, beside: Turns) -> bool:
    """Prints the figures; false if the hostile space has harmed the other."""
    seen = beside.phase
    harmed = bool(seen.lost or seen.broken)
    columns = f"{'calls':>7} {'p50 ms':>8} {'p99 ms':>8}"
    print(f"{'without it:':12}{columns}   beside it:{columns} {'ratio':>6}")
    for call in CALLS:
        ratio = seen.percentile(call, 99) / control.phase.percentile(call, 99)
        harmed |= ratio > MAX_RATIO
        figures = [
            (len(phase.seconds[call]), phase.percentile(call, 50), phase.percentile(call, 99))
            for phase in (control.phase, seen)
        ]
        before, after = ("{:7} {:8.1f} {:8.1f}".format(*each) for each in figures)
        print(f"{call:12}{before}             {after} {ratio:6.2f}")
    for turns, name in ((control, "without it"), (beside, "beside it")):
        used = {"attackers": turns.attackers, **{name: turns.octoadmin[name] for name in MEASURED}}
        shares = ", ".join(f"{who} {seconds / turns.seconds:.2f}" for who, seconds in used.items())
        print(f"processors used {name}: {shares}")
    print(f"leases lost {len(seen.lost)}, put off {dict(seen.put_off)}, contract broken {len(seen.broken)}")
    for line in (*seen.lost, *seen.broken):
        print(f"  {line}")
    return not harmed


def run(*, seconds: float = 60, port: int | None = None, niceness: int = NICENESS) -> bool:
    """False if the hostile space has harmed the other."""
    port = port or free_port()
    with running_octoadmin(port) as (up, good, bad):
        turn = seconds / ROUNDS / 2
        control, beside = asyncio.run(
            measure(port=port, token=good, hostile_token=bad, seconds=turn, niceness=niceness, up=up)
        )
    return report(control, beside)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--port", type=int, default=None, help="of the Octoadmin that it starts")
    parser.add_argument("--nice", type=int, default=NICENESS, help="of the attackers; 0 if the machine is busy")
    arguments = parser.parse_args()
    if not run(seconds=arguments.seconds, port=arguments.port, niceness=arguments.nice):
        sys.exit("The hostile space has harmed its neighbour.")


if __name__ == "__main__":
    main()
