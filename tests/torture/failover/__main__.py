"""`make failover`: each fault ROUNDS times under load, and a line about each. Exits with 1 on a violation."""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path

import psycopg

from tests.clusters import create_space
from tests.locks.events.webhooks.receiver import Receiver, receiving
from tests.polling import until
from tests.servers import PROJECT_DIR, RunningServer
from tests.torture.failover.load import Load
from tests.torture.failover.stack import TTL_SECONDS, PatroniNode, Stack, missing_programs

# Patroni may take its TTL to notice, and the servers a moment to reconnect.
MAX_OUTAGE_SECONDS = TTL_SECONDS + 5
# How long a frozen node stays so: another one is the primary by then.
PAUSE_SECONDS = TTL_SECONDS + 10


def kill_node(stack: Stack) -> None:
    node = stack.primary()
    node.kill()
    _wait_for_another_primary(stack, node)
    node.start()


def kill_postgres(stack: Stack) -> None:
    postmaster = stack.primary().postmaster()
    assert postmaster is not None
    postmaster.kill()


def kill_agent(stack: Stack) -> None:
    node = stack.primary()
    node.signal_agent(signal.SIGKILL)
    _wait_for_another_primary(stack, node)
    node.start()


def pause(stack: Stack) -> None:
    node = stack.primary()
    node.signal_agent(signal.SIGSTOP)
    node.signal_postgres(signal.SIGSTOP)
    time.sleep(PAUSE_SECONDS)
    _wait_for_another_primary(stack, node)
    node.signal_postgres(signal.SIGCONT)
    node.signal_agent(signal.SIGCONT)


def switch_over(stack: Stack) -> None:
    stack.switch_over()


def kill_standbys(stack: Stack) -> None:
    primary = stack.primary()
    standbys = [node for node in stack.nodes if node is not primary]
    for node in standbys:
        node.kill()
    time.sleep(5)
    for node in standbys:
        node.start()


def _wait_for_another_primary(stack: Stack, former: PatroniNode) -> None:
    others = [node for node in stack.nodes if node is not former]
    until(lambda: any(node.is_primary for node in others), "another primary", timeout=120)


FAULTS: dict[str, Callable[[Stack], None]] = {
    "node killed": kill_node,
    "postgres killed": kill_postgres,
    "agent killed": kill_agent,
    "node paused": pause,
    "switched over": switch_over,
    "standbys killed": kill_standbys,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="make failover", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--fault", choices=FAULTS, action="append", help="only this one; may be repeated")
    parser.add_argument("--port", type=int, default=31_500, help="the first of ten ports in a row")
    parser.add_argument("--directory", type=Path, help="keep data and logs there")
    arguments = parser.parse_args()
    if missing := missing_programs():
        print(f"The drill needs {', '.join(missing)}: apt-get install etcd-server haproxy, and `make failover`.")
        return 2
    with tempfile.TemporaryDirectory(prefix="octo-failover-", ignore_cleanup_errors=True) as temporary:
        directory = arguments.directory or Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        set_up_environment(directory)
        faults = arguments.fault or list(FAULTS)
        return drill(directory, first_port=arguments.port, rounds=arguments.rounds, faults=faults)


def drill(directory: Path, *, first_port: int, rounds: int, faults: list[str]) -> int:
    with ExitStack() as context:
        stack = context.enter_context(Stack(directory, first_port=first_port))
        token = create_space(stack.url)
        settings = {"OCTO_REQUESTS_PER_SECOND": "100000", "OCTO_WEBHOOK_NETWORKS": "127.0.0.0/8", "LOG_LEVEL": "error"}
        servers = [RunningServer(stack.url, settings, log=directory / f"server-{number}.log") for number in (1, 2)]
        for server in servers:
            context.callback(server.stop)
            server.start()
        context.enter_context(running_worker(stack.url, settings, log=directory / "worker.log"))
        receiver = context.enter_context(receiving())
        api = servers[0].api(token)
        created = api.call("POST", "/webhooks", {"url": f"{receiver.url}/hook", "prefix": "shared/"})
        assert created.status == 201, created.content
        load = Load([server.port for server in servers], token)
        load.start()
        until(lambda: receiver.at("/hook") and load.counts["turns"], "the load runs")
        for number in range(rounds):
            for name in faults:
                _one_fault(stack, load, receiver, name, number=number + 1)
        load.stop()
        load.check_held()
        check_deliveries(stack.url, load, receiver)
        check_history(stack.url, load)
        if any(server.process is None or server.process.poll() is not None for server in servers):
            load.violations.append("a server has stopped")
        print("operations: " + ", ".join(f"{name} {count}" for name, count in sorted(load.counts.items())))
        print(f"leases held at the end: {len(load.held)}; webhook deliveries: {len(receiver.at('/hook'))}")
        for violation in load.violations:
            print(f"VIOLATION {violation}")
        print(f"violations: {len(load.violations)}")
    return 1 if load.violations else 0


def _one_fault(stack: Stack, load: Load, receiver: Receiver, name: str, *, number: int) -> None:
    stack.wait_complete()
    before = time.monotonic()
    FAULTS[name](stack)
    stack.wait_complete()
    # Waiting requests, watches and webhooks go on: each has something new after the fault.
    seen = _progress(load, receiver)
    until(
        lambda: all(now > earlier for now, earlier in zip(_progress(load, receiver), seen, strict=True)),
        f"everything goes on after: {name}; {load.counts}",
        timeout=120,
    )
    outage = _longest_gap([before, *(at for at in load.successes if at >= before), time.monotonic()])
    if outage > MAX_OUTAGE_SECONDS:
        load.violations.append(f"{name}: {outage:.1f} s without a success")
    print(f"round {number}: {name}: longest time without a success {outage:.1f} s, {len(load.violations)} violations")
    sys.stdout.flush()


def _progress(load: Load, receiver: Receiver) -> list[int]:
    return [load.counts["turns"], load.counts["watched acquired"], len(receiver.at("/hook"))]


def _longest_gap(times: list[float]) -> float:
    return max(later - earlier for earlier, later in pairwise(times))


def set_up_environment(directory: Path) -> None:
    os.environ["OCTO_DATA_DIR"] = str(directory / "data")
    os.environ["SECRET_KEY"] = "a secret for the drill, and for nothing else"
    os.environ["LOG_FORMAT"] = "json"
    os.environ.pop("CELERY_BROKER_URL", None)


@contextmanager
def running_worker(url: str, settings: dict[str, str], *, log: Path, code: Path = PROJECT_DIR) -> Iterator[None]:
    environment = os.environ | {"DATABASE_URL": url} | settings
    (Path(os.environ["OCTO_DATA_DIR"]) / "queue" / "control").mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "octoadmin.run.worker"],
            cwd=code, env=environment, stdout=output, stderr=output,
        )  # fmt: skip
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def check_deliveries(url: str, load: Load, receiver: Receiver) -> None:
    """Every event of the names that the webhook asks for was delivered."""
    with psycopg.connect(url) as connection:
        events = connection.execute("SELECT id::text FROM octo_event WHERE starts_with(lock_name, 'shared/')")
        wanted = {event_id for (event_id,) in events}

    def missing() -> set[str]:
        return wanted - {delivery.headers["X-OctoStore-Event-Id"] for delivery in receiver.at("/hook")}

    try:
        until(lambda: not missing(), timeout=120)
    except AssertionError:
        load.violations.append(f"{len(missing())} of {len(wanted)} events were not delivered to the webhook")
    resets = sum(delivery.json["event"] == "reset" for delivery in receiver.at("/hook"))
    print(f"events delivered: {len(wanted - missing())} of {len(wanted)}; resets of the webhook: {resets}")


def check_history(url: str, load: Load) -> None:
    """The audit history tells the same as the locks."""
    done = subprocess.run(
        [sys.executable, "manage.py", "verify_audit"],
        cwd=PROJECT_DIR, env=os.environ | {"DATABASE_URL": url}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        load.violations.append(f"verify_audit: {done.stdout} {done.stderr}")


if __name__ == "__main__":
    sys.exit(main())
