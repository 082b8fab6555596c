"""The processes of a server start, stop and fail together."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest
import uvicorn

from octoadmin.http.asgi_types import Receive, Scope, Send
from octoadmin.run.server import bind, config
from tests.polling import async_until
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


def test_when_one_process_is_killed_the_others_stop_with_an_error(server: RunningServer) -> None:
    first, second = processes_of(server)
    first.kill()
    assert server.process is not None
    assert server.process.wait(20) == 1
    assert not second.is_running()


@pytest.mark.long
def test_the_processes_end_when_their_parent_is_killed(server: RunningServer) -> None:
    children = processes_of(server)
    assert server.process is not None
    server.process.kill()
    server.process.wait()
    _gone, alive = psutil.wait_procs(children, timeout=20)
    assert not [child for child in alive if child.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.long
def test_a_signal_stops_all_processes_with_exit_code_0(server: RunningServer) -> None:
    children = processes_of(server)
    assert server.process is not None
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(20) == 0
    assert not [child for child in children if child.is_running()]


def test_a_port_that_is_taken_is_named(server: RunningServer) -> None:
    environment = os.environ | {"PORT": str(server.port), "HOST": "127.0.0.1"}
    command = [sys.executable, "-m", "octoadmin.run.server"]
    another = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert another.returncode == 1
    assert f"Port {server.port} on 127.0.0.1 is taken" in another.stderr


def test_connections_are_refused_until_the_application_has_started() -> None:
    async def scenario() -> None:
        starting, may_start = asyncio.Event(), asyncio.Event()

        async def application(scope: Scope, receive: Receive, send: Send) -> None:
            assert (await receive())["type"] == "lifespan.startup"
            starting.set()
            await may_start.wait()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})

        bound = bind("127.0.0.1", 0)
        address = bound.getsockname()
        server = uvicorn.Server(config(application))
        serving = asyncio.create_task(server.serve([bound]))
        await starting.wait()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*address)
        may_start.set()
        await async_until(lambda: server.started)
        _reader, writer = await asyncio.open_connection(*address)
        writer.close()
        server.should_exit = True
        await serving

    asyncio.run(scenario())


@pytest.mark.long
@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
def test_the_ipv6_wildcard_includes_ipv4() -> None:
    with bind("::", 0) as bound:
        bound.listen()
        port = bound.getsockname()[1]
        for address in ("127.0.0.1", "::1"):
            socket.create_connection((address, port), timeout=10).close()
