"""Server processes on a free port, and an HTTP client for them."""

import http.client
import itertools
import json
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from email.message import Message
from pathlib import Path
from typing import Any

import psutil

from tests.forkserver import ALWAYS, ForkedServer, fork_server
from tests.polling import until

PROJECT_DIR = Path(__file__).parent.parent
START_SECONDS = 50


# Below the ephemeral ports, and another range for each process of xdist, so that no other process takes the port before
# the server listens. In random order, as the tests of another checkout may run at the same time.
_ports = itertools.cycle(random.sample(range(20_000, 20_500), 500))


def free_port() -> int:
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 20
    while True:
        port = next(_ports) + 500 * worker
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


@dataclass
class Response:
    status: int
    headers: Message
    content: bytes

    def json(self) -> Any:
        return json.loads(self.content)


class Api:
    """A keep-alive connection to a server, for one thread. It reconnects if the server has closed it."""

    def __init__(self, port: int, token: str | None = None) -> None:
        self._token = token
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Response:
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        data = None
        if body is not None:
            data, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
        try:
            # A server may respond, and close the connection, before it was sent all of a body that is too large.
            with suppress(BrokenPipeError):
                self._connection.request(method, path, data, headers)
            response = self._connection.getresponse()
            return Response(response.status, response.headers, response.read())
        except (OSError, http.client.HTTPException):
            self.close()
            raise

    def close(self) -> None:
        self._connection.close()


@dataclass
class RunningServer:
    """`python -m octoadmin.run.server` on a database of its own or the test's."""

    database_url: str
    environment: dict[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | ForkedServer | None = None
    clients: list[Api] = field(default_factory=list)
    log: Path | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        self.launch()
        self.wait_serving()

    def wait_serving(self) -> None:
        def serves() -> bool:
            assert self.is_running, "the server has stopped"
            with suppress(OSError), closing(Api(self.port)) as api:
                return api.call("GET", "/health").status == 200 and self._is_listening()
            return False

        until(serves, "the server responds", timeout=START_SECONDS)

    def _is_listening(self) -> bool:
        """Otherwise another program has taken the port and answers, and this process is about to stop."""
        with suppress(psutil.NoSuchProcess):
            sockets = psutil.Process(self.process.pid).net_connections("tcp")
            return any(each.status == psutil.CONN_LISTEN and each.laddr.port == self.port for each in sockets)
        return False

    def launch(self) -> None:
        self.process = self._forked(self._environment()) or self.spawn()

    def _environment(self) -> dict[str, str]:
        own = {"DATABASE_URL": self.database_url, "PORT": str(self.port), "HOST": "127.0.0.1"}
        return os.environ | ALWAYS | own | self.environment

    def _forked(self, environment: dict[str, str]) -> ForkedServer | None:
        """A new process that does not have to import all modules first. Several server processes share their metrics in
        files, which is decided when the metrics are imported."""
        return fork_server(environment, self.log) if environment["OCTO_WORKERS"] == "1" else None

    def spawn(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") if self.log else nullcontext() as log:
            return subprocess.Popen(
                [sys.executable, "-m", "octoadmin.run.server"],
                cwd=PROJECT_DIR, env=self._environment(), process_group=0, stdout=log, stderr=log,
            )  # fmt: skip

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        """To its worker processes too."""
        if self.is_running:
            os.killpg(self.process.pid, number)

    def kill(self) -> None:
        """Without a shutdown, as a power cut would."""
        self.signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        self.close_clients()
        if not self.is_running:
            return
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.kill()

    def close_clients(self) -> None:
        for api in self.clients:
            api.close()
        self.clients.clear()

    def api(self, token: str | None = None) -> Api:
        """Closed when the server is stopped."""
        api = Api(self.port, token)
        self.clients.append(api)
        return api


@contextmanager
def running_server(database_url: str, *, port: int | None = None, **environment: str) -> Iterator[RunningServer]:
    server = RunningServer(database_url, environment, port or free_port())
    try:
        server.start()
        yield server
    finally:
        server.stop()


class SharedServers:
    """One server for many tests, started when the first one needs it; another for each set of settings. Between tests
    its process is stopped, so that those which do not use it never find a row that it has written."""

    def __init__(self) -> None:
        self._servers: dict[frozenset[tuple[str, str]], RunningServer] = {}

    def get(self, **environment: str) -> RunningServer:
        """Which may not run, but has its port."""
        settings = frozenset(environment.items())
        if settings not in self._servers:
            self._servers[settings] = RunningServer(os.environ["DATABASE_URL"], environment)
        return self._servers[settings]

    @contextmanager
    def used(self, **environment: str) -> Iterator[RunningServer]:
        server = self.get(**environment)
        if server.is_running:
            server.signal(signal.SIGCONT)
            server.wait_serving()
        else:
            server.start()
        try:
            yield server
        finally:
            server.close_clients()
            server.signal(signal.SIGSTOP)
        # A test may have stopped or killed it.
        assert server.process.poll() in (None, 0, -signal.SIGTERM, -signal.SIGKILL), "the server has failed"

    def kill(self) -> None:
        for server in self._servers.values():
            if server.is_running:
                server.kill()
