"""A server of several processes is one: they start, stop and fail together."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from octoadmin.server import listen
from tests.servers import RunningServer, running_server

pytestmark = [pytest.mark.timeout(90), pytest.mark.usefixtures("committed")]


@pytest.fixture
def server(committed: None) -> Iterator[RunningServer]:
    with running_server(os.environ["DATABASE_URL"], OCTO_WORKERS="2") as running:
        yield running


def processes_of(server: RunningServer) -> list[psutil.Process]:
    assert server.process is not None
    children = psutil.Process(server.process.pid).children()
    assert len(children) == 2
    return children


def test_when_one_is_killed_the_others_stop_and_that_is_a_failure(server: RunningServer) -> None:
    first, second = processes_of(server)
    first.kill()
    assert server.process is not None
    assert server.process.wait(20) == 1
    assert not second.is_running()


def test_they_end_with_the_one_that_has_started_them(server: RunningServer) -> None:
    children = processes_of(server)
    assert server.process is not None
    server.process.kill()
    server.process.wait()
    _gone, alive = psutil.wait_procs(children, timeout=20)
    assert not [child for child in alive if child.status() != psutil.STATUS_ZOMBIE]


def test_a_signal_ends_them_in_order(server: RunningServer) -> None:
    children = processes_of(server)
    assert server.process is not None
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(20) == 0
    assert not [child for child in children if child.is_running()]


def test_a_port_that_is_taken_is_named(server: RunningServer) -> None:
    environment = os.environ | {"PORT": str(server.port), "HOST": "127.0.0.1"}
    command = [sys.executable, "-m", "octoadmin.server"]
    another = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert another.returncode == 1
    assert f"Port {server.port} on 127.0.0.1 is taken" in another.stderr


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
def test_all_addresses_are_those_of_ipv4_too() -> None:
    with listen("::", 0) as listener:
        port = listener.getsockname()[1]
        for address in ("127.0.0.1", "::1"):
            socket.create_connection((address, port), timeout=10).close()
