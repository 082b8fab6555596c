"""One run: an installation, clients, faults, and the check of what was recorded."""

import math
import multiprocessing
import os
import random
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec
import psycopg

from tests.servers import PROJECT_DIR
from tests.torture.checker import Violation, check
from tests.torture.clients import EVENT_KINDS, PREFIX, Watch, run_clients
from tests.torture.faults import Faults
from tests.torture.history import Event, History, Op
from tests.torture.installation import Installation

CATCH_UP_SECONDS = 60.0

_EVENTS = """
SELECT id, kind, lock_name, fencing_token, extract(epoch FROM at)::float8, request_id,
       extract(epoch FROM at)::float8 - (detail ->> 'waited_ms')::float8 / 1000
FROM octo_event
WHERE kind = ANY (%s) AND starts_with(lock_name, %s)
ORDER BY id
"""


@dataclass(frozen=True, kw_only=True)
class Options:
    """`fault_seconds` is the mean time between two faults; `pause` that of a client between two uses."""

    seconds: float
    seed: int
    processes: int = 2
    threads: int = 12
    fault_seconds: float = 6.0
    pause: float = 0.0
    kinds: tuple[str, ...] = ()


def torture(options: Options, directory: Path) -> tuple[History, list[Violation]]:
    directory.mkdir(parents=True, exist_ok=True)
    history = History(seed=options.seed)
    installation = Installation()
    try:
        installation.start()
        watches = [Watch(number, ports=_rotated(installation, number), token=installation.token) for number in range(2)]
        for watch in watches:
            watch.start()
        for watch in watches:
            assert watch.is_connected.wait(60), "a watch got no snapshot"
        _break_and_use(installation, options, directory, history)
        installation.stop_worker()
        installation.wait_serving()
        history.events = _events(installation)
        _wait_for_watches(watches, len(history.events))
        history.contradictions = _contradictions(installation)
        for watch in watches:
            watch.stop()
            history.delivered += watch.delivered
    finally:
        installation.stop()
    return history, check(history)


def _rotated(installation: Installation, number: int) -> list[int]:
    ports = [server.port for server in installation.servers]
    return ports[number:] + ports[:number]


def _break_and_use(installation: Installation, options: Options, directory: Path, history: History) -> None:
    spawn = multiprocessing.get_context("spawn")
    until = time.time() + options.seconds
    paths = [directory / f"client-{number}.jsonl" for number in range(options.processes)]
    processes = [
        spawn.Process(
            target=run_clients, daemon=True, args=(path,),
            kwargs={
                "ports": installation.ports, "token": installation.token, "seed": options.seed * 100 + number,
                "threads": options.threads, "until": until, "pause": options.pause,
            },
        )
        for number, path in enumerate(paths)
    ]  # fmt: skip
    for process in processes:
        process.start()
    faults = Faults(installation, options.seed)
    order = random.Random(options.seed)
    chosen = list(options.kinds or faults.kinds)
    time.sleep(min(2.0, options.seconds / 4))
    while time.time() + 3 < until:
        if not chosen:
            chosen = list(options.kinds or faults.kinds)
        kind = chosen.pop(order.randrange(len(chosen)))
        if kind in faults.kinds:
            faults.happen(kind)
        pause = order.expovariate(1 / options.fault_seconds) if math.isfinite(options.fault_seconds) else math.inf
        time.sleep(max(0.0, min(pause, until - time.time())))
    for process in processes:
        process.join(max(until - time.time(), 0) + 120)
        assert process.exitcode == 0, f"a client process ended with {process.exitcode}"
    history.faults = faults.happened
    decoder = msgspec.json.Decoder(Op)
    for path in paths:
        with path.open("rb") as lines:
            history.ops += [decoder.decode(line) for line in lines]
        path.unlink()


def _events(installation: Installation) -> list[Event]:
    with psycopg.connect(installation.database_url) as connection:
        return [
            Event(id=number, kind=kind, name=name, fencing_token=token, at=at, request_id=request_id, place=place)
            for number, kind, name, token, at, request_id, place in connection.execute(
                _EVENTS, [list(EVENT_KINDS), PREFIX]
            )
        ]


def _wait_for_watches(watches: list[Watch], count: int) -> None:
    deadline = time.monotonic() + CATCH_UP_SECONDS
    while any(len(watch.delivered) < count for watch in watches) and time.monotonic() < deadline:
        time.sleep(0.1)


def _contradictions(installation: Installation) -> list[str]:
    """What the product's own check of its history finds."""
    done = subprocess.run(
        [sys.executable, "manage.py", "verify_audit"], cwd=PROJECT_DIR, capture_output=True, text=True, check=False,
        env=os.environ | {"DATABASE_URL": installation.database_url},
    )  # fmt: skip
    return [] if done.returncode == 0 else [(done.stdout + done.stderr).strip()[-500:]]
