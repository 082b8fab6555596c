"""The database of `up`: starts the embedded one or checks the one of DATABASE_URL, then migrates it."""

import os
import re
import signal
import socket
import time
from dataclasses import dataclass
from pathlib import Path

import psycopg
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from psycopg.conninfo import conninfo_to_dict

from locks.engine import sql_objects
from octoadmin.environment import environment
from octoadmin.run.pooler import MESSAGE, is_transaction_pooler
from octoadmin.run.postgres import Cluster, PostgresError
from octoadmin.run.preflight import CannotStart
from octoadmin.run.supervisor import Child, ChildDied, Supervisor

MIN_VERSION = 15
# After a crash the old server's processes may need a moment to notice that they are orphans.
ORPHAN_SECONDS = 6.0
# Crash recovery may take minutes on a slow disk.
RECOVERY_SECONDS = 600.0
# Any number, as long as all servers use the same: only one of them migrates at a time.
MIGRATION_LOCK = 0x0C70AD


@dataclass(frozen=True, kw_only=True)
class EmbeddedDatabase:
    cluster: Cluster
    log: Path

    def start(self, supervisor: Supervisor) -> None:
        self.log.parent.mkdir(mode=0o700, exist_ok=True)
        since = self._log_size()
        try:
            self.cluster.initialise()
            self._start_when_free(supervisor, since=since)
            self.cluster.create_database()
        except PostgresError as error:
            raise CannotStart(
                f"The embedded PostgreSQL did not start: {error}.{self._last_fatal_line(since)} "
                f"Its log, {self.log}, says more."
            ) from None

    def restart(self, supervisor: Supervisor) -> None:
        """After its death: it recovers from its log, as after a power cut. The orphans of the old server still use its
        memory, so the new one cannot start before the last of them is gone."""
        since = self._log_size()
        try:
            self._start_when_free(supervisor, since=since)
        except PostgresError as error:
            raise ChildDied(f"PostgreSQL ended and did not start again ({error}; its log is {self.log})") from None

    def _log_size(self) -> int:
        return self.log.stat().st_size if self.log.exists() else 0

    def _start_when_free(self, supervisor: Supervisor, *, since: int) -> None:
        deadline = time.monotonic() + ORPHAN_SECONDS
        while True:
            child = supervisor.adopt(lambda: self._server(supervisor))
            try:
                self.cluster.wait_ready(child.process, seconds=RECOVERY_SECONDS)
                return
            except PostgresError:
                if child.process.poll() is None or not self._is_taken(since):
                    raise
                supervisor.drop(child)
                if time.monotonic() > deadline and not self._remove_stale_lock_files():
                    raise
            time.sleep(0.25)

    def _server(self, supervisor: Supervisor) -> Child:
        with self.log.open("ab") as log:
            os.fchmod(log.fileno(), 0o600)
            process = self.cluster.start(log=log)
        return Child(
            name="PostgreSQL", process=process, restart=lambda: self.restart(supervisor),
            signals=(signal.SIGINT, signal.SIGQUIT), is_database=True,
        )  # fmt: skip

    def _is_taken(self, since: int) -> bool:
        line = self._last_fatal_line(since)
        return "already exists" in line or "still in use" in line

    def _remove_stale_lock_files(self) -> bool:
        """Removes a dead server's lock file if its process number belongs to another program by now.

        That is common in containers, where numbers start from 1 again. If nothing answers on the socket, the server is
        dead; should its children live on, Postgres still finds its shared memory in use.
        """
        with socket.socket(socket.AF_UNIX) as probe:
            if probe.connect_ex(str(self.cluster.socket_dir / ".s.PGSQL.5432")) == 0:
                return False
        stale = [self.cluster.directory / "postmaster.pid", self.cluster.socket_dir / ".s.PGSQL.5432.lock"]
        found = any(file.exists() for file in stale)
        for file in stale:
            file.unlink(missing_ok=True)
        return found

    def _last_fatal_line(self, since: int) -> str:
        """The last fatal line of the log from that byte on, as a sentence of a message."""
        if not self.log.exists():
            return ""
        lines = self.log.read_bytes()[since:].decode(errors="replace").splitlines()
        fatal = [found[1] for line in lines if (found := re.search(r"\b(?:FATAL|PANIC):\s+(.*)", line))]
        # Logged for clients that connect too early, as we do: not a reason for a failure.
        reasons = [line for line in fatal if not line.startswith("the database system is")]
        return f" It said: {reasons[-1]}." if reasons else ""


def check_database(url: str) -> None:
    """Connects once, so that a wrong DATABASE_URL gives a clear message here and not a traceback later."""
    try:
        with psycopg.connect(url, connect_timeout=5) as server:
            version = server.info.server_version // 10000
            encoding = server.info.parameter_status("server_encoding")
    except psycopg.Error as error:
        reason = " ".join(str(error).split())
        if password := conninfo_to_dict(url).get("password"):
            reason = reason.replace(str(password), "***")
        raise CannotStart(
            f"The database that DATABASE_URL names cannot be reached: {reason}\n"
            "Set DATABASE_URL to postgresql://user:password@host:5432/name of a running PostgreSQL, "
            "or leave it empty for the embedded one."
        ) from None
    if environment().octo_prepared_statements and is_transaction_pooler(url):
        raise CannotStart(MESSAGE)
    if version < MIN_VERSION:
        raise CannotStart(
            f"The database that DATABASE_URL names is PostgreSQL {version}; "
            f"Octoadmin needs {MIN_VERSION} or newer. Set DATABASE_URL to a newer server."
        )
    if encoding != "UTF8":
        raise CannotStart(
            f"The database that DATABASE_URL names has the encoding {encoding}; Octoadmin needs UTF8. Create one with: "
            "CREATE DATABASE octoadmin ENCODING 'UTF8' TEMPLATE template0"
        )


def check_migration_history() -> None:
    """Raises CannotStart for a database whose tables this version cannot read."""
    loader = MigrationLoader(connection)
    unknown = sorted(
        name for app, name in loader.applied_migrations if app == "locks" and (app, name) not in loader.disk_migrations
    )
    if unknown:
        raise CannotStart(
            f"The database was created by another version of Octoadmin (migration {unknown[-1]} is unknown to this "
            "one) and cannot be upgraded. Keep it for that version, and start with an empty one: set "
            "OCTO_DATA_DIR=/path/to/it, or DATABASE_URL to an empty database."
        )


def needs_migration() -> bool:
    executor = MigrationExecutor(connection)
    pending = executor.migration_plan(executor.loader.graph.leaf_nodes())
    return bool(pending) or not sql_objects.are_current(connection)


def migrate() -> None:
    """Servers that share a database may start at the same time; the lock lets one of them migrate."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", [MIGRATION_LOCK])
        call_command("migrate", interactive=False, verbosity=0)
        cursor.execute("SELECT pg_advisory_unlock(%s)", [MIGRATION_LOCK])
