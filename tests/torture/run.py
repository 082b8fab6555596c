"""One run: an installation, clients, faults, and the check of what was recorded."""

import math
import multiprocessing
import random
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec
import psycopg

from tests.servers import PROJECT_DIR
from tests.torture.checker import check
from tests.torture.client_process import run_clients
from tests.torture.clients import PREFIX
from tests.torture.faults import LONG_SECONDS, Faults
from tests.torture.history import Event, History, KvOp, Op, Spell
from tests.torture.installation import Installation
from tests.torture.queue_monitor import QueueMonitor
from tests.torture.quiet_spells import Plan, after_spell, spells
from tests.torture.violations import Judgement
from tests.torture.watches import EVENT_KINDS, Watch

# A watch that delivers nothing for so long has delivered all that it will.
CATCH_UP_SECONDS = 15.0
_OF_TIME = ("ended before it was acquired", "which was acquired before it ended", "was acquired after")

_EVENTS = """
SELECT id, kind, lock_name, fencing_token, extract(epoch FROM at)::float8, owner,
       extract(epoch FROM at)::float8 - (detail ->> 'waited_ms')::float8 / 1000,
       coalesce(recorded_late_ms, 0)::float8 / 1000, coalesce(held_ms, 0)::float8 / 1000, reason
FROM octo_event
WHERE kind = ANY (%s) AND starts_with(lock_name, %s)
ORDER BY id
"""


@dataclass(frozen=True, kw_only=True)
class Options:
    """`clients` and `kv_clients` are those of each process. `quiet_seconds` come before the first fault,
    `fault_seconds` is the mean time between two; `pause` is that of a client between two uses. If `kinds` are given,
    each of them happens once, for `max_fault_seconds` at most, and the run lasts until then."""

    seconds: float
    seed: int
    processes: int = 2
    clients: int = 40
    kv_clients: int = 1
    quiet_seconds: float = 5.0
    fault_seconds: float = 15.0
    pause: float = 0.0
    kinds: tuple[str, ...] = ()
    max_fault_seconds: float = LONG_SECONDS
    has_quiet_spells: bool = True


def torture(options: Options, directory: Path) -> tuple[History, Judgement]:
    directory.mkdir(parents=True, exist_ok=True)
    history = History(seed=options.seed)
    installation = Installation(actors=options.processes * options.kv_clients)
    watches: list[Watch] = []
    try:
        installation.start()
        watches += [
            Watch(number, ports=_rotated(installation, number), token=installation.token) for number in range(2)
        ]
        for watch in watches:
            watch.start()
        for watch in watches:
            assert watch.is_connected.wait(60), "a watch got no snapshot"
        _break_and_use(installation, options, directory, history)
        installation.stop_worker()
        installation.wait_serving()
        history.events = _events(installation)
        _wait_for_watches(watches, history.events)
        history.contradictions = _contradictions(installation, clock_was_set=bool(history.clock_steps))
        for watch in watches:
            history.watches.append(watch.number)
            history.delivered += watch.delivered
    finally:
        for watch in watches:
            watch.stop()
        installation.stop()
        for watch in watches:
            watch.join(30)
    return history, check(history)


def _rotated(installation: Installation, number: int) -> list[int]:
    ports = [server.port for server in installation.servers]
    return ports[number:] + ports[:number]


def _break_and_use(installation: Installation, options: Options, directory: Path, history: History) -> None:
    spawn = multiprocessing.get_context("spawn")
    began = time.time()
    until = spawn.Value("d", began + options.seconds, lock=False)
    last_waits = spawn.Array("d", len(installation.servers), lock=False)
    plans: list[Plan] = []
    if options.has_quiet_spells:
        plans = spells(options.seed, began, seconds=options.seconds, servers=len(installation.servers))
    paths = [directory / f"client-{number}.jsonl" for number in range(options.processes)]
    processes = [
        spawn.Process(
            target=run_clients, daemon=True, args=(path,),
            kwargs={
                "ports": installation.ports, "token": installation.token, "seed": options.seed * 100 + number,
                "actor_tokens": installation.actor_tokens[number :: options.processes], "count": options.clients,
                "until": until, "pause": options.pause, "plans": plans,
                "server": number % len(installation.servers), "last_waits": last_waits,
            },
        )
        for number, path in enumerate(paths)
    ]  # fmt: skip
    for process in processes:
        process.start()
        assert process.pid is not None
        installation.client_pids.append(process.pid)
    monitor = QueueMonitor(installation.database_url)
    monitor.start()
    faults = Faults(installation, options.seed, max_seconds=options.max_fault_seconds)
    order = random.Random(options.seed)
    time.sleep(options.quiet_seconds)
    if options.kinds:
        until.value = math.inf
        for kind in order.sample(options.kinds, len(options.kinds)):
            if kind in faults.kinds:
                faults.happen(kind)
                time.sleep(order.expovariate(1 / options.fault_seconds))
        until.value = time.time()
    chosen: list[str] = []
    while (moment := after_spell(plans, time.time())) + 3 < until.value:
        time.sleep(max(moment - time.time(), 0))
        chosen = chosen or faults.kinds
        faults.happen(chosen.pop(order.randrange(len(chosen))))
        time.sleep(max(0.0, min(order.expovariate(1 / options.fault_seconds), until.value - time.time())))
    for process in processes:
        process.join(max(until.value - time.time(), 0) + 120)
        assert process.exitcode == 0, f"a client process ended with {process.exitcode}"
    history.faults, history.clock_steps = faults.happened, faults.clock_steps
    history.unavailable = faults.unavailable
    monitor.stop()
    history.stalls, history.places = monitor.stalls, monitor.places
    for path in paths:
        _read(path, history)
        path.unlink()


def _read(path: Path, history: History) -> None:
    decoder = msgspec.json.Decoder(Op | KvOp | Spell)
    with path.open("rb") as lines:
        for line in lines:
            op = decoder.decode(line)
            if isinstance(op, Spell):
                history.spells.append(op)
                continue
            # There are few names, and a million operations.
            op.name = sys.intern(op.name)
            if isinstance(op, Op):
                history.ops.append(op)
            else:
                history.kv_ops.append(op)


def _events(installation: Installation) -> list[Event]:
    with psycopg.connect(installation.database_url) as connection:
        return [
            Event(
                id=number,
                kind=sys.intern(kind),
                name=sys.intern(name),
                fencing_token=token,
                at=at,
                owner=owner,
                place=place,
                late=late,
                held=held,
                reason=sys.intern(reason) if kind == "released" and reason else None,
            )
            for number, kind, name, token, at, owner, place, late, held, reason in connection.execute(
                _EVENTS, [list(EVENT_KINDS), PREFIX]
            )
        ]


def _wait_for_watches(watches: list[Watch], events: list[Event]) -> None:
    """Until each has delivered the last transition of every name: after a `reset` it does not get all of them."""
    last = {event.name: (event.kind, event.fencing_token) for event in events}
    before: list[int] = []
    deadline = 0.0
    while not all(last.items() <= _last_delivered(watch).items() for watch in watches):
        delivered = [len(watch.delivered) for watch in watches]
        if delivered != before:
            before, deadline = delivered, time.monotonic() + CATCH_UP_SECONDS
        if time.monotonic() > deadline:
            break
        time.sleep(0.1)


def _last_delivered(watch: Watch) -> dict[str, tuple[str, int]]:
    return {one.name: (one.kind, one.fencing_token) for one in watch.delivered}


def _contradictions(installation: Installation, *, clock_was_set: bool) -> list[str]:
    """What the product's own check of its history finds. It compares times, which do not rise if the clock was set
    back; the checker looks at the order of the events."""
    done = subprocess.run(
        [sys.executable, "manage.py", "verify_audit"], cwd=PROJECT_DIR, capture_output=True, text=True, check=False,
        env=installation.environment,
    )  # fmt: skip
    if done.returncode == 0:
        return []
    lines = [line.strip() for line in (done.stdout + done.stderr).splitlines()]
    found = [line for line in lines if line.startswith("space ")]
    of_time = [line for line in found if any(phrase in line for phrase in _OF_TIME)] if clock_was_set else []
    return [line for line in found if line not in of_time] if found else lines[-5:]
