"""The leases that commands have acquired, in a file that only its owner can read, so that `octo lock release` needs no
lease id.

A saved lease belongs to the shell that acquired it: the process that started `octo`, or what `--holder` and OCTO_HOLDER
name. Another job of the same user does not find it, and cannot release it by mistake.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from octo import config, names
from octo.cli.output import LeaseNotSaved
from octo.errors import ConfigurationError

VERSION = 2
# How long a lease is kept after its end, as the machine's clock may be wrong.
KEEP_SECONDS = 86_400


class SavedLease(NamedTuple):
    name: str
    lease_id: str
    fencing_token: int
    owner: str | None
    expires_unix_ms: int
    ttl: int | None
    server: str = ""
    holder: str = ""

    def is_over(self) -> bool:
        return self.expires_unix_ms / 1000 < time.time()


def directory() -> str:
    default = os.environ.get("LOCALAPPDATA") if os.name == "nt" else None
    return os.path.join(os.environ.get("XDG_STATE_HOME") or default or os.path.expanduser("~/.local/state"), "octo")


def current_holder(named: str | None) -> str:
    named = named or os.environ.get("OCTO_HOLDER")
    return f"holder {named}" if named else _process(os.getppid())[0]


def _process(pid: int) -> tuple[str, int]:
    """As a holder, and its parent."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
        # With its start time, as process ids are used again.
        return f"process {pid} {fields[19]}", int(fields[1])
    except OSError:
        return f"process {pid}", 0


def _ancestors() -> Iterator[str]:
    pid = os.getppid()
    while pid > 1:
        holder, parent = _process(pid)
        yield holder
        pid = parent or _parent_by_ps(pid)


def _parent_by_ps(pid: int) -> int:
    """Where there is no /proc. 0 if it cannot be found out."""
    import subprocess

    try:
        done = subprocess.run(["ps", "-o", "ppid=", "-p", str(pid)], check=True, capture_output=True)  # noqa: S607
        return int(done.stdout)
    except (OSError, ValueError, subprocess.CalledProcessError):
        return 0


class SavedLeases:
    """Of one server, one token and one holder."""

    def __init__(self, settings: config.Settings, *, holder: str | None = None) -> None:
        token = config.public_id(settings.token) or hashlib.sha256(settings.token.encode()).hexdigest()[:12]
        self._server = f"{settings.url} {token}"
        self._holder = current_holder(holder)
        self.path = os.path.join(directory(), "leases.json")

    def all(self) -> dict[str, SavedLease]:
        return {lease.name: lease for lease in _read(self.path) if self._is_ours(lease)}

    def load(self, name: str) -> SavedLease:
        saved = self.all()
        # The server may have stored another spelling: path:src for path:./src/.
        lease = saved.get(name) or saved.get(names.canonical(name))
        if lease is None:
            raise LeaseNotSaved(
                f"No lease of {name} was acquired by this shell. Acquire it first, or pass --lease-id, or the --holder "
                "that it was acquired with."
            )
        return lease

    def held_by_this_job(self) -> list[str]:
        """Lease ids for a check: of this holder, of the processes above it (a git hook's shell is not the one that
        acquired the lock), and of the `octo run` that it is part of."""
        holders = {self._holder, *_ancestors()}
        saved = [one for one in _read(self.path) if one.server == self._server and one.holder in holders]
        inherited = json.loads(os.environ.get("OCTO_LEASES") or "[]")
        return [*(one.lease_id for one in saved if not one.is_over()), *(one["lease_id"] for one in inherited)]

    def save(self, lease: SavedLease) -> None:
        with self._transaction() as leases:
            leases[:] = [one for one in leases if not (self._is_ours(one) and one.name == lease.name)]
            leases.append(lease._replace(server=self._server, holder=self._holder))

    def delete(self, lease_id: str) -> None:
        with self._transaction() as leases:
            leases[:] = [one for one in leases if one.lease_id != lease_id]

    def prune(self) -> list[str]:
        """Deletes those of this server and token that are over, of all holders."""
        with self._transaction() as leases:
            over = [one for one in leases if one.server == self._server and one.is_over()]
            leases[:] = [one for one in leases if one not in over]
        return [lease.name for lease in over]

    def _is_ours(self, lease: SavedLease) -> bool:
        return (lease.server, lease.holder) == (self._server, self._holder)

    @contextmanager
    def _transaction(self) -> Iterator[list[SavedLease]]:
        """Commands that run at once take turns."""
        try:
            os.makedirs(directory(), mode=0o700, exist_ok=True)
            lock = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as problem:
            raise ConfigurationError(
                f"Leases cannot be saved in {directory()}: {problem.strerror}. Name another place with "
                "XDG_STATE_HOME, or pass --lease-id."
            ) from None
        try:
            _lock(lock)
            leases = _read(self.path)
            yield leases
            past = (time.time() - KEEP_SECONDS) * 1000
            kept = [lease._asdict() for lease in leases if lease.expires_unix_ms > past]
            config.write_private(self.path, json.dumps({"version": VERSION, "leases": kept}, indent=1))
        finally:
            os.close(lock)


def _lock(file: int) -> None:
    try:
        import fcntl
    except ImportError:
        import msvcrt

        msvcrt.locking(file, msvcrt.LK_LOCK, 1)  # type: ignore[attr-defined,unused-ignore]
    else:
        fcntl.flock(file, fcntl.LOCK_EX)


def _read(path: str) -> list[SavedLease]:
    try:
        with open(path, encoding="utf-8") as file:
            if os.name == "posix" and os.fstat(file.fileno()).st_mode & 0o077:
                raise ConfigurationError(f"Other users can read the leases in {path}. Close it with: chmod 600 {path}")
            content: dict[str, Any] = json.load(file)
            return [SavedLease(**one) for one in content["leases"]] if content.get("version") == VERSION else []
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ConfigurationError(f"{path} is damaged. Remove it; leases expire by themselves.") from None
    except OSError as problem:
        raise ConfigurationError(f"{path} cannot be read: {problem.strerror}.") from None
