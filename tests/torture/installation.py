"""What is tortured: PostgreSQL with the settings of production, two servers and a worker, all on the loopback
interface.

Each server reaches the database through a proxy of its own, so that it alone can be cut off, and is reached through one
that loses requests and answers. The data is on a file system of its own, where that can be had, so that it can be full,
and the database has a clock of its own, where libfaketime can be had, so that it can be set.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import psycopg

from octoadmin.run.postgres import DATABASE, ROLE, SUPERUSER, PostgresError
from tests.clusters import Node
from tests.polling import until
from tests.servers import PROJECT_DIR, Api, RunningServer
from tests.torture.proxies import Proxies

DISK_MEGABYTES = 6144
# What is left when it is full: the file system has to be larger than what is on it.
LEFT_BYTES = 1 << 16
SERVERS = 2
# libfaketime looks at its file every two seconds at most.
CLOCK_SECONDS = 2.2
# Debian has a directory for each architecture; other distributions have lib64 or lib.
_LIBRARIES = (f"/usr/lib/{sysconfig.get_config_var('MULTIARCH')}", "/usr/lib64", "/usr/lib", "/usr/local/lib")
_FAKETIME = next(filter(Path.exists, (Path(each) / "faketime/libfaketime.so.1" for each in _LIBRARIES)), None)


class Installation:
    def __init__(self, *, actors: int = 0) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="octo-torture-"))
        # PostgreSQL may run as another account.
        self.directory.chmod(0o755)
        self._disk = self.directory / "disk"
        self._disk.mkdir()
        self.disk = self._disk if _mount(self._disk) else None
        self.clock = self.directory / "clock" if _FAKETIME is not None else None
        self.node = Node(self._disk / "0", {"max_wal_size": "256MB"}, self._clock_variables())
        self.node.directory.mkdir()
        self.worker: subprocess.Popen[bytes] | None = None
        self.servers: list[RunningServer] = []
        self.proxies = Proxies()
        # Of the servers, and the last one of all others.
        self.database_proxies: list[Any] = []
        self.http_proxies: list[Any] = []
        self.client_pids: list[int] = []
        self.token = ""
        self.actor_tokens: list[str] = []
        self._actors = actors
        # Those of the tests, so that servers can be forked from the process that they have for it.
        own = {"OCTO_DATA_DIR": str(self.directory / "data"), "SECRET_KEY": "a secret for torture, and nothing else"}
        self._settings = {"LOG_FORMAT": "json", "OCTO_REQUESTS_PER_SECOND": "1000000"} | {
            name: os.environ.get(name, value) for name, value in own.items()
        }
        self._stopping = threading.Event()
        self._supervisor = threading.Thread(target=self._supervise, daemon=True)
        # While it is taken, a database that has ended is not started again.
        self.database_lock = threading.Lock()

    @property
    def database_url(self) -> str:
        """Through a proxy, so that it stays the same when another server is the primary."""
        return self._database_url(SERVERS)

    def _database_url(self, number: int) -> str:
        return f"host={self.directory / f'database-{number}'} user={ROLE} dbname={DATABASE}"

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | self._settings | {"DATABASE_URL": self.database_url}

    def _manage(self, *command: str) -> None:
        manage = [sys.executable, "manage.py", *command]
        subprocess.run(manage, cwd=PROJECT_DIR, env=self.environment, check=True)

    @property
    def ports(self) -> list[int]:
        """Of the servers, and of the proxies before them, which get a quarter of the requests: they cost more."""
        return [server.port for server in self.servers] * 3 + [proxy.get_port() for proxy in self.http_proxies]

    def start(self) -> None:
        self.proxies.start()
        self.node.cluster.initialise()
        self.node.start()
        self.node.cluster.create_database()
        for number in range(SERVERS + 1):
            sockets = self.directory / f"database-{number}"
            sockets.mkdir()
            self.database_proxies.append(self.proxies.postgres(sockets, self.node.cluster.socket_dir))
        self._manage("migrate", "--verbosity", "0")
        if "OCTO_DATA_DIR" not in os.environ:
            self._manage("collectstatic", "--no-input", "--verbosity", "0")
        self.token = create_token(
            self.environment, "locks:read", "locks:write", "locks:force", "audit:read", "runs:manage"
        )
        for number in range(SERVERS):
            log = self.directory / f"server-{number}.log"
            self.servers.append(RunningServer(self._database_url(number), self._settings, log=log))
        for server in self.servers:
            server.start()
            self.http_proxies.append(self.proxies.http(server.port))
        self.start_worker()
        self._start_run()
        self._supervisor.start()

    def _start_run(self) -> None:
        """Whose store is used. Its actors stay for longer than any run of the suite."""
        day = 24 * 3600
        with contextlib.closing(Api(self.servers[0].port, self.token)) as api:
            started = api.call("POST", "/runs", {"ttl_seconds": day, "session_ttl_seconds": day})
            assert started.status == 201, started.content
            run = started.json()
        with contextlib.closing(Api(self.servers[0].port, run["token"])) as api:
            for number in range(self._actors):
                body = {"actor_id": f"worker-{number}", "ttl_seconds": day}
                self.actor_tokens.append(api.call("POST", f"/runs/{run['run_id']}/actors", body).json()["token"])

    def start_worker(self) -> None:
        with (self.directory / "worker.log").open("ab") as log:
            self.worker = subprocess.Popen(
                [sys.executable, "-m", "octoadmin.run.worker"],
                cwd=PROJECT_DIR, env=self.environment, process_group=0, stdout=log, stderr=log,
            )  # fmt: skip

    def _supervise(self) -> None:
        """Starts again what has ended, as systemd would."""
        while not self._stopping.wait(0.1):
            with contextlib.suppress(PostgresError, OSError):
                with self.database_lock:
                    if self.node.process is not None and self.node.process.poll() is not None:
                        self.node.start()
                for server in self.servers:
                    if server.process is not None and server.process.poll() is not None:
                        server.launch()
                if self.worker is not None and self.worker.poll() is not None:
                    self.start_worker()

    def backends(self) -> list[int]:
        with psycopg.connect(self.node.cluster.conninfo(user=SUPERUSER), connect_timeout=3) as connection:
            query = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'octoadmin%'"
            return [pid for (pid,) in connection.execute(query)]

    # The loss of the primary.

    def add_standby(self) -> Node:
        """A synchronous one: from then on nothing is acknowledged that it does not have."""
        self.node.execute("ALTER SYSTEM RESET synchronous_standby_names")
        standby = self.node.create_standby(self._disk / str(int(self.node.directory.name) + 1))
        standby.start()
        self.node.execute("ALTER SYSTEM SET synchronous_standby_names = 'standby'")
        self.node.execute("SELECT pg_reload_conf()")
        until(lambda: self.node.execute("SELECT sync_state FROM pg_stat_replication") == [("sync",)], "replication")
        # The commits wait for it when the checkpointer, too, has read the setting.
        time.sleep(0.5)
        return standby

    def fail_over(self, standby: Node) -> None:
        """The primary is gone for good, with all of its data."""
        with self.database_lock:
            lost, self.node = self.node, standby
            lost.lose()
            standby.promote()
            for proxy in self.database_proxies:
                proxy.point_to(standby.cluster.socket_dir)
                proxy.cut()
            shutil.rmtree(lost.directory, ignore_errors=True)

    # The clock of the database.

    def _clock_variables(self) -> dict[str, str]:
        if self.clock is None:
            return {}
        self._write_clock(0)
        return {
            "LD_PRELOAD": str(_FAKETIME), "FAKETIME_TIMESTAMP_FILE": str(self.clock), "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1", "FAKETIME_DISABLE_SHM": "1",
        }  # fmt: skip

    def _write_clock(self, seconds: float) -> None:
        assert self.clock is not None
        draft = self.clock.with_suffix(".new")
        draft.write_text(f"{seconds:+.3f}")
        draft.chmod(0o644)
        draft.rename(self.clock)

    def set_clock(self, seconds: float) -> None:
        """So much before or after the time. The database is stopped meanwhile, so that no process sees the other time
        before another: as if its machine had been suspended, and its clock set when it resumed."""
        with self.stopped_database():
            self._write_clock(seconds)
            time.sleep(CLOCK_SECONDS)

    @contextlib.contextmanager
    def stopped_database(self) -> Iterator[None]:
        with self.database_lock:
            node = self.node
            # Processes that the postmaster was starting when it was stopped are stopped by the second time.
            node.freeze()
            node.freeze()
            try:
                yield
            finally:
                node.thaw()

    # The end.

    def stop(self) -> None:
        self._stopping.set()
        if self._supervisor.is_alive():
            self._supervisor.join(30)
        for server in self.servers:
            server.stop()
        self.stop_worker()
        self.proxies.shutdown()
        if self.node.process is not None:
            self.node.stop()
        if self.disk is not None:
            subprocess.run(["umount", "--lazy", self.disk], check=False)
        shutil.rmtree(self.directory, ignore_errors=True)

    def stop_worker(self) -> None:
        """For good: from then on nothing happens that no request asked for."""
        worker, self.worker = self.worker, None
        if worker is not None and worker.poll() is None:
            os.killpg(worker.pid, signal.SIGTERM)
            try:
                worker.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(worker.pid, signal.SIGKILL)
                worker.wait()

    def fill_disk(self) -> None:
        assert self.disk is not None
        # What is written meanwhile makes it larger than the new size; then the next attempt counts.
        while not _mount(self.disk, "remount", size=psutil.disk_usage(str(self.disk)).used + LEFT_BYTES):
            pass

    def empty_disk(self) -> None:
        assert self.disk is not None
        _mount(self.disk, "remount")

    def wait_serving(self, *, seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        for server in self.servers:
            while time.monotonic() < deadline:
                with contextlib.suppress(OSError), contextlib.closing(Api(server.port)) as api:
                    if api.call("GET", "/health").status == 200:
                        break
                time.sleep(0.1)


def create_token(environment: dict[str, str], *scopes: str) -> str:
    """Creates a team with a space, and issues a token through the command that people use."""
    with psycopg.connect(environment["DATABASE_URL"]) as connection:
        connection.execute("INSERT INTO octo_team (slug, name) VALUES ('blue', 'Blue')")
        connection.execute(
            """
            INSERT INTO octo_space (team_id, slug, name, default_ttl_seconds, max_ttl_seconds, max_metadata_length,
                                    max_live_locks, max_waiters, max_waiters_per_name, octostore_compatibility,
                                    allow_non_expiring_tokens)
            SELECT id, 'main', 'Main', 60, 86400, 1024, 1000000, 10000, 1000, false, false FROM octo_team
            """
        )
    issue = [sys.executable, "manage.py", "issue_token", "--team", "blue", "--name", "storm", "--quiet"]
    issue += [f"--scope={scope}" for scope in scopes]
    done = subprocess.run(issue, cwd=PROJECT_DIR, env=environment, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def _mount(directory: Path, *options: str, size: int = DISK_MEGABYTES << 20) -> bool:
    """A file system in memory; only root may mount one."""
    if os.geteuid() != 0:
        return False
    mount = ["mount", "-t", "tmpfs", "-o", ",".join([*options, f"size={size}"]), "octo-torture", directory]
    return subprocess.run(mount, check=False, capture_output=True).returncode == 0
