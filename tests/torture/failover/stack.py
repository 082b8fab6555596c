"""etcd, three PostgreSQL nodes under Patroni, and haproxy, as processes on loopback."""

import http.client
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any, Self

import psutil
import psycopg

from octoadmin.run.postgres import BINARIES, _account_for, _identity, _make_traversable
from tests.polling import until

TTL_SECONDS = 20
START_SECONDS = 120
# A node that was killed may have to rewind its data, or to copy them anew.
REJOIN_SECONDS = 300
_DIRECTORY = Path(__file__).parent
_PATH = f"{os.environ['PATH']}:/usr/sbin:/usr/bin"


def missing_programs() -> list[str]:
    """What the drill needs and this machine lacks."""
    missing = [program for program in ("etcd", "haproxy") if shutil.which(program, path=_PATH) is None]
    try:
        import patroni  # noqa: F401
    except ImportError:
        missing.append("patroni")
    return missing


@dataclass
class PatroniNode:
    """An agent and the PostgreSQL that it runs. Each may die without the other."""

    name: str
    directory: Path
    port: int
    api_port: int
    etcd_port: int
    agent: "subprocess.Popen[bytes] | None" = None

    def start(self) -> None:
        config = self.directory / "patroni.yml"
        values = vars(self) | {"binaries": BINARIES}
        config.write_text(Template((_DIRECTORY / "patroni.yml").read_text()).substitute(values))
        account = _account_for(self.directory)
        with (self.directory / "patroni.log").open("ab") as log:
            self.agent = subprocess.Popen(
                [sys.executable, "-m", "patroni", config],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, process_group=0, **_identity(account),
            )  # fmt: skip

    @property
    def is_primary(self) -> bool:
        """And holds the leader key: a node whose agent was killed says that it is the primary until it is told that
        another one is."""
        try:
            return _get(self.api_port, "/primary")[0] == 200
        except (OSError, http.client.HTTPException, ValueError):
            return False

    def postmaster(self) -> psutil.Process | None:
        with suppress(FileNotFoundError, ValueError, psutil.NoSuchProcess):
            return psutil.Process(int((self.directory / "data" / "postmaster.pid").read_text().split("\n", 1)[0]))
        return None

    def signal_agent(self, number: int) -> None:
        assert self.agent is not None
        # Patroni may run its API and PostgreSQL's starter in children.
        with suppress(psutil.NoSuchProcess):
            agent = psutil.Process(self.agent.pid)
            postgres = self.postmaster()
            for process in (agent, *(each for each in agent.children() if each != postgres)):
                with suppress(psutil.NoSuchProcess):
                    process.send_signal(number)
        if number == signal.SIGKILL:
            self.agent.wait()

    def signal_postgres(self, number: int) -> None:
        postmaster = self.postmaster()
        if postmaster is not None:
            with suppress(psutil.NoSuchProcess):
                for process in (postmaster, *postmaster.children()):
                    with suppress(psutil.NoSuchProcess):
                        process.send_signal(number)

    def kill(self) -> None:
        """As if the machine had lost its power."""
        self.signal_postgres(signal.SIGKILL)
        self.signal_agent(signal.SIGKILL)
        self.signal_postgres(signal.SIGKILL)

    def stop(self) -> None:
        if self.agent is None:
            return
        self.signal_postgres(signal.SIGCONT)
        self.signal_agent(signal.SIGCONT)
        self.agent.terminate()
        with suppress(subprocess.TimeoutExpired):
            self.agent.wait(20)
        self.kill()


class Stack:
    """Use as a context manager: everything is stopped at its end."""

    def __init__(self, directory: Path, *, first_port: int) -> None:
        """Ports of its own: a node that was killed needs the same ones again."""
        ports = itertools.count(first_port)
        self.directory = directory
        self.etcd_port, self._etcd_peer_port, self.port = next(ports), next(ports), next(ports)
        self.nodes = [
            PatroniNode(name, directory / name, next(ports), next(ports), self.etcd_port) for name in ("n1", "n2", "n3")
        ]
        self._processes = ExitStack()

    @property
    def url(self) -> str:
        return f"host=127.0.0.1 port={self.port} user=octoadmin dbname=octoadmin"

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._processes.close()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self._processes.close()

    def primary(self) -> PatroniNode:
        return until(
            lambda: next((node for node in self.nodes if node.is_primary), None), "a primary", timeout=START_SECONDS
        )

    def wait_complete(self) -> None:
        """One primary that accepts writes, and two standbys that stream from it, one of them synchronous."""
        until(self._is_complete, "all nodes follow the primary", timeout=REJOIN_SECONDS)

    def switch_over(self) -> None:
        leader = self.primary()
        connection = http.client.HTTPConnection("127.0.0.1", leader.api_port, timeout=60)
        body = json.dumps({"leader": leader.name})
        connection.request("POST", "/switchover", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        assert response.status == 200, text

    def _is_complete(self) -> bool:
        try:
            members = _get(self.primary().api_port, "/cluster")[1]["members"]
        except (OSError, http.client.HTTPException, ValueError, KeyError):
            return False
        following = sorted(member["role"] for member in members if member["state"] == "streaming")
        return following in (["replica", "sync_standby"], ["sync_standby", "sync_standby"])

    def _start(self) -> None:
        account = _account_for(self.directory)
        _make_traversable(self.directory)
        _make_traversable(Path(sys.executable).parent)
        for node in self.nodes:
            node.directory.mkdir(mode=0o700)
            if account is not None:
                os.chown(node.directory, account.pw_uid, account.pw_gid)
        peer = self._etcd_peer_port
        self._run(
            "etcd", "--data-dir", self.directory / "etcd", "--log-level", "error",
            "--listen-client-urls", f"http://127.0.0.1:{self.etcd_port}",
            "--advertise-client-urls", f"http://127.0.0.1:{self.etcd_port}",
            "--listen-peer-urls", f"http://127.0.0.1:{peer}",
            "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}",
            "--initial-cluster", f"default=http://127.0.0.1:{peer}",
        )  # fmt: skip
        servers = "\n".join(
            f"    server {node.name} 127.0.0.1:{node.port} check port {node.api_port}" for node in self.nodes
        )
        config = self.directory / "haproxy.cfg"
        template = Template((_DIRECTORY / "haproxy.cfg").read_text())
        config.write_text(template.substitute(port=self.port, servers=servers))
        self._run("haproxy", "-f", config)
        for node in self.nodes:
            node.start()
            self._processes.callback(node.stop)
        self.wait_complete()
        primary = self.primary()
        with psycopg.connect(host="127.0.0.1", port=primary.port, user="postgres", autocommit=True) as connection:
            connection.execute("CREATE ROLE octoadmin LOGIN")
            connection.execute("CREATE DATABASE octoadmin OWNER octoadmin")
        until(lambda: _accepts(self.url), "haproxy has found the primary", timeout=START_SECONDS)

    def _run(self, program: str, *arguments: str | Path) -> None:
        path = shutil.which(program, path=_PATH)
        assert path is not None, program
        with (self.directory / f"{program}.log").open("ab") as log:
            process = subprocess.Popen([path, *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._processes.callback(process.wait)
        self._processes.callback(process.terminate)


def _accepts(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=3).close()
    except psycopg.OperationalError:
        return False
    return True


def _get(port: int, path: str) -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=3)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()
