"""Embedded PostgreSQL clusters of a test's own: a primary, standbys, and what can happen to them."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import psycopg

from octoadmin.run.postgres import BINARIES, SUPERUSER, Cluster, _account_for, _identity, stop
from tests.polling import until
from tests.servers import PROJECT_DIR

_CREATE_SPACE = """
import django; django.setup()
from locks.models import Space, Team
from locks.services import tokens
from locks.services.audit import Actor
space = Space.objects.create(team=Team.objects.create(slug="blue", name="Blue"), slug="main", name="Main")
scopes = ("locks:read", "locks:write", "locks:force", "audit:read", "webhooks:manage", "tokens:manage")
print(tokens.issue(actor=Actor.of_shell(), space=space, name="worker", scopes=scopes)[0])
"""


@dataclass
class Node:
    """One server and its data. `settings` go to its command line when it starts."""

    directory: Path
    settings: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def cluster(self) -> Cluster:
        return Cluster(directory=self.directory / "postgres", settings=self.settings, variables=self.variables)

    @property
    def url(self) -> str:
        return self.cluster.conninfo()

    def start(self) -> None:
        with (self.directory / "postgres.log").open("ab") as log:
            self.process = self.cluster.start(log=log)
        self.cluster.wait_ready(self.process)

    def stop(self) -> None:
        if self.process is not None:
            self.thaw()
            stop(self.process)

    def kill(self) -> None:
        """The postmaster dies at once; its children notice and leave."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def lose(self) -> None:
        """All processes die at once, as with the machine."""
        for process in self.processes():
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self.kill()

    def freeze(self) -> None:
        """The processes stop, the kernel goes on: connections stay open and what is sent is acknowledged."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        for process in self.processes():
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)

    def processes(self) -> list[psutil.Process]:
        """The postmaster first: otherwise it would start others."""
        assert self.process is not None
        try:
            postmaster = psutil.Process(self.process.pid)
            return [postmaster, *postmaster.children()]
        except psutil.NoSuchProcess:
            return []

    def execute(self, statement: str) -> list[tuple]:
        conninfo = self.cluster.conninfo(user=SUPERUSER)
        with psycopg.connect(conninfo, autocommit=True, connect_timeout=30) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def create_standby(self, directory: Path) -> "Node":
        """A copy that follows this server once it is started, under the name `standby`."""
        standby = Node(directory, self.settings, self.variables)
        directory.mkdir()
        account = _account_for(self.cluster.directory)
        if account is not None:
            os.chown(directory, account.pw_uid, account.pw_gid)
        command = [
            BINARIES / "pg_basebackup", "--pgdata", standby.cluster.directory, "--write-recovery-conf",
            "--checkpoint", "fast", "--dbname",
            f"host={self.cluster.socket_dir} user={SUPERUSER} application_name=standby",
        ]  # fmt: skip
        subprocess.run(command, check=True, capture_output=True, **_identity(account))
        return standby

    def promote(self) -> None:
        self.execute("SELECT pg_promote(true, 60)")

    def wait_primary(self) -> None:
        until(lambda: self.execute("SELECT pg_is_in_recovery()") == [(False,)], "the end of recovery")


@contextmanager
def primary(settings: dict[str, str] | None = None) -> Iterator[Node]:
    """Its standbys may be made in the same directory."""
    with tempfile.TemporaryDirectory(prefix="octo-cluster-", ignore_cleanup_errors=True) as directory:
        node = Node(Path(directory) / "a", settings or {})
        node.directory.mkdir()
        node.cluster.initialise()
        Path(directory).chmod(0o755)
        node.start()
        try:
            node.cluster.create_database()
            yield node
        finally:
            node.stop()


@contextmanager
def copy_of(node: Node, name: str) -> Iterator[Node]:
    """Another primary with the same data, which spares a test the migrations."""
    copy = node.create_standby(node.directory.parent / name)
    copy.start()
    try:
        copy.promote()
        yield copy
    finally:
        copy.stop()


@contextmanager
def standby_of(first: Node, *, synchronous: bool) -> Iterator[Node]:
    second = first.create_standby(first.directory.parent / f"{first.directory.name}-standby")
    second.start()
    try:
        if synchronous:
            first.execute("ALTER SYSTEM SET synchronous_standby_names = 'standby'")
            first.execute("SELECT pg_reload_conf()")
        wanted = "sync" if synchronous else "async"
        until(lambda: first.execute("SELECT sync_state FROM pg_stat_replication") == [(wanted,)], "replication")
        yield second
    finally:
        second.stop()


def create_space(url: str, *, code: Path = PROJECT_DIR, **settings: str) -> str:
    """Migrates the database, and creates a space. Returns a token for it."""
    environment = os.environ | {"DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "octoadmin.settings"} | settings
    subprocess.run([sys.executable, "manage.py", "migrate", "--verbosity", "0"], cwd=code, env=environment, check=True)
    create = [sys.executable, "-c", _CREATE_SPACE]
    done = subprocess.run(create, cwd=code, env=environment, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def hosts(*nodes: Node) -> str:
    """A DATABASE_URL with several hosts."""
    directories = ",".join(str(node.cluster.socket_dir) for node in nodes)
    return f"host={directories} user=octoadmin dbname=octoadmin"


def has(program: str) -> bool:
    return shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/usr/bin") is not None
