"""What is tortured: PostgreSQL with the settings of production, two servers and a worker, all on the loopback
interface.

Each server reaches the database through a proxy of its own, so that it alone can be cut off, and is reached through one
that loses requests and answers. The data is on a file system of its own, where that can be had, so that it can be full.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psycopg

from octoadmin.run.postgres import SUPERUSER, Cluster, PostgresError, stop
from tests.fault_proxy import FaultProxy, PostgresProxy, TcpProxy
from tests.servers import PROJECT_DIR, Api, RunningServer

DISK_MEGABYTES = 1536
SERVERS = 2


class Installation:
    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="octo-torture-"))
        disk = self.directory / "disk"
        disk.mkdir()
        self.disk = disk if _mount(disk) else None
        self.cluster = Cluster(directory=disk / "postgres")
        self.postgres: subprocess.Popen[bytes] | None = None
        self.worker: subprocess.Popen[bytes] | None = None
        self.servers: list[RunningServer] = []
        self.database_proxies: list[TcpProxy] = []
        self.http_proxies: list[FaultProxy] = []
        self.token = ""
        self._environment: dict[str, str] = {}
        self._stopping = threading.Event()
        self._supervisor = threading.Thread(target=self._supervise, daemon=True)

    @property
    def database_url(self) -> str:
        return self.cluster.conninfo()

    @property
    def ports(self) -> list[int]:
        """Of the servers, and of the proxies before them."""
        return [*(server.port for server in self.servers), *(proxy.port for proxy in self.http_proxies)]

    def start(self) -> None:
        self.cluster.initialise()
        self.start_postgres()
        self.cluster.create_database()
        self._environment = {
            "OCTO_DATA_DIR": str(self.directory / "data"), "SECRET_KEY": "a secret for torture, and for nothing else",
            "LOG_FORMAT": "json", "OCTO_REQUESTS_PER_SECOND": "1000000",
        }  # fmt: skip
        os.environ.update(self._environment)
        self.token = create_token(self.database_url, "locks:read", "locks:write", "locks:force", "audit:read")
        collect = [sys.executable, "manage.py", "collectstatic", "--no-input", "--verbosity", "0"]
        subprocess.run(collect, cwd=PROJECT_DIR, check=True, env=os.environ | {"DATABASE_URL": self.database_url})
        for number in range(SERVERS):
            sockets = self.directory / f"database-{number}"
            sockets.mkdir()
            self.database_proxies.append(PostgresProxy(sockets, params={"host": str(self.cluster.socket_dir)}))
            url = self.database_url.replace(str(self.cluster.socket_dir), str(sockets))
            log = self.directory / f"server-{number}.log"
            self.servers.append(RunningServer(url, {"OCTO_BATCH_CONNECTIONS": "2"}, log=log))
        for server in self.servers:
            server.start()
            self.http_proxies.append(FaultProxy(server.port))
        self.start_worker()
        self._supervisor.start()

    def start_postgres(self) -> None:
        with (self.directory / "postgres.log").open("ab") as log:
            self.postgres = self.cluster.start(log=log)
        self.cluster.wait_ready(self.postgres, seconds=60)

    def start_worker(self) -> None:
        with (self.directory / "worker.log").open("ab") as log:
            self.worker = subprocess.Popen(
                [sys.executable, "-m", "octoadmin.run.worker"],
                cwd=PROJECT_DIR, env=os.environ | {"DATABASE_URL": self.database_url}, process_group=0,
                stdout=log, stderr=log,
            )  # fmt: skip

    def _supervise(self) -> None:
        """Starts again what has ended, as systemd would."""
        while not self._stopping.wait(0.2):
            with contextlib.suppress(PostgresError, OSError):
                if self.postgres is not None and self.postgres.poll() is not None:
                    self.start_postgres()
                for server in self.servers:
                    if server.process is not None and server.process.poll() is not None:
                        server.process = server._spawned(self._server_environment(server))
                if self.worker is not None and self.worker.poll() is not None:
                    self.start_worker()

    def _server_environment(self, server: RunningServer) -> dict[str, str]:
        own = {"DATABASE_URL": server.database_url, "PORT": str(server.port), "HOST": "127.0.0.1", "OCTO_WORKERS": "1"}
        return os.environ | own | server.environment

    def backends(self) -> list[int]:
        with psycopg.connect(self.cluster.conninfo(user=SUPERUSER), connect_timeout=3) as connection:
            query = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'octoadmin%'"
            return [pid for (pid,) in connection.execute(query)]

    def postgres_processes(self) -> list[int]:
        """The postmaster and its children."""
        assert self.postgres is not None
        children = Path(f"/proc/{self.postgres.pid}/task/{self.postgres.pid}/children").read_text().split()
        return [self.postgres.pid, *map(int, children)]

    def stop(self) -> None:
        self._stopping.set()
        self._supervisor.join(30)
        for proxy in [*self.http_proxies, *self.database_proxies]:
            proxy.thaw()
        for server in self.servers:
            server.stop()
        self.stop_worker()
        for proxy in [*self.http_proxies, *self.database_proxies]:
            proxy.close()
        if self.postgres is not None:
            stop(self.postgres)
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
        with contextlib.suppress(OSError), (self.disk / "ballast").open("wb") as ballast:
            block = bytes(1 << 20)
            while True:
                ballast.write(block)

    def empty_disk(self) -> None:
        assert self.disk is not None
        (self.disk / "ballast").unlink(missing_ok=True)

    def wait_serving(self, *, seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        for server in self.servers:
            while time.monotonic() < deadline:
                with contextlib.suppress(OSError), contextlib.closing(Api(server.port)) as api:
                    if api.call("GET", "/health").status == 200:
                        break
                time.sleep(0.1)


def create_token(database_url: str, *scopes: str) -> str:
    """Migrates, creates a team with a space, and issues a token through the command that people use."""
    environment = os.environ | {"DATABASE_URL": database_url}
    subprocess.run(
        [sys.executable, "manage.py", "migrate", "--verbosity", "0"], cwd=PROJECT_DIR, env=environment, check=True
    )
    with psycopg.connect(database_url) as connection:
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


def _mount(directory: Path) -> bool:
    """A small file system in memory; only root may mount one."""
    if os.geteuid() != 0:
        return False
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MEGABYTES}m", "octo-torture", directory]
    return subprocess.run(mount, check=False, capture_output=True).returncode == 0
