"""The leases that a person's commands have taken, in a file for that person's eyes only.

So that `octo lock release` needs no lease id. Commands that run at once wait for each other, and a command that is
killed leaves either the old file or the new one.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from octo import token as tokens
from octo.errors import ConfigurationProblem

# What a lease is remembered for after its end, as the machine's clock may be wrong.
GRACE_SECONDS = 60


class Remembered(NamedTuple):
    name: str
    lease_id: str
    fencing_token: int
    owner: str | None
    expires_unix_ms: int
    ttl: int | None = None

    def is_over(self) -> bool:
        return self.expires_unix_ms / 1000 < time.time()


def directory() -> str:
    return os.path.join(os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state"), "octo")


def _digest(token: str) -> str:
    """For the tokens of other servers, which have no part that may be shown."""
    import hashlib

    return hashlib.sha256(token.encode()).hexdigest()[:12]


class State:
    """What is remembered of one server and one token."""

    def __init__(self, *, url: str, token: str) -> None:
        self._holder = f"{url} {tokens.public_id(token) or _digest(token)}"
        self.path = os.path.join(directory(), "leases.json")

    def recall(self, name: str) -> Remembered | None:
        return self.all().get(name)

    def all(self) -> dict[str, Remembered]:
        return {name: Remembered(name, **kept) for name, kept in _read(self.path).get(self._holder, {}).items()}

    def remember(self, lease: Remembered) -> None:
        with self._changing() as kept:
            kept[lease.name] = {field: value for field, value in lease._asdict().items() if field != "name"}

    def forget(self, name: str, lease_id: str | None = None) -> None:
        """With a lease id only that lease: another command may have taken the lock again meanwhile."""
        with self._changing() as kept:
            if name in kept and lease_id in (None, kept[name]["lease_id"]):
                del kept[name]

    def forget_over(self) -> list[str]:
        over = [lease.name for lease in self.all().values() if lease.is_over()]
        with self._changing() as kept:
            for name in over:
                kept.pop(name, None)
        return over

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Any]]:
        try:
            os.makedirs(directory(), mode=0o700, exist_ok=True)
            lock = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as problem:
            raise ConfigurationProblem(
                f"Leases cannot be remembered in {directory()}: {problem.strerror}. Name another place with "
                "XDG_STATE_HOME, or pass --lease-id."
            ) from None
        try:
            _wait_for(lock)
            content = _read(self.path)
            kept = content.setdefault(self._holder, {})
            yield kept
            _tidy(content)
            _write(self.path, content)
        finally:
            os.close(lock)


def _wait_for(lock: int) -> None:
    try:
        import fcntl
    except ImportError:
        import msvcrt

        msvcrt.locking(lock, msvcrt.LK_LOCK, 1)  # type: ignore[attr-defined]
    else:
        fcntl.flock(lock, fcntl.LOCK_EX)


def _read(path: str) -> dict[str, dict[str, Any]]:
    try:
        with open(path, "rb") as file:
            if os.name == "posix" and os.fstat(file.fileno()).st_mode & 0o077:
                raise ConfigurationProblem(f"Others can read the leases in {path}. Close it with: chmod 600 {path}")
            content = json.load(file)
            return content["leases"] if content.get("version") == 1 else {}
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ConfigurationProblem(f"{path} is damaged. Remove it; leases run out by themselves.") from None
    except OSError as problem:
        raise ConfigurationProblem(f"{path} cannot be read: {problem.strerror}.") from None


def _tidy(content: dict[str, dict[str, Any]]) -> None:
    """What ran out long ago would only pile up."""
    past = (time.time() - GRACE_SECONDS - 86_400) * 1000
    for holder in list(content):
        content[holder] = {name: kept for name, kept in content[holder].items() if kept["expires_unix_ms"] > past}
        if not content[holder]:
            del content[holder]


def _write(path: str, content: dict[str, dict[str, Any]]) -> None:
    draft = f"{path}.{os.getpid()}"
    with suppress(FileNotFoundError):
        os.unlink(draft)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump({"version": 1, "leases": content}, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)
