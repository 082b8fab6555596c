"""What every command starts with: a client, its saved leases, and what a terminal shows while it waits."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from octo.cli.output import format_duration, sanitize, unix_ms, until
from octo.cli.saved_leases import SavedLease, SavedLeases
from octo.client import Client
from octo.lease import LeaseBase
from octo.models import Holder

if TYPE_CHECKING:
    from typing_extensions import Self

# A person waits for the answer; `octo run` retries longer.
RETRY_SECONDS = 3.0
FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
FRAME_SECONDS = 0.1


def connect(arguments: Any) -> Client:
    return Client(**server_of(arguments), program="octo-cli", retry_for=RETRY_SECONDS)


def server_of(arguments: Any) -> dict[str, Any]:
    """The address and the token, as arguments of a client."""
    given = {name: getattr(arguments, name) for name in ("url", "token_file", "profile")}
    return {**given, "token": getattr(arguments, "token", None)}


def owner_of(arguments: Any) -> str | None:
    return arguments.owner or os.environ.get("OCTO_OWNER") or None


def saved_leases(client: Client, arguments: Any) -> SavedLeases:
    return SavedLeases(client.settings, holder=getattr(arguments, "holder", None))


def save(client: Client, arguments: Any, *leases: LeaseBase) -> None:
    for lease in leases:
        expires = unix_ms(lease.expires_at) or 0
        saved_leases(client, arguments).save(
            SavedLease(lease.name, lease.lease_id, lease.fencing_token, lease.owner, expires, lease.ttl)
        )


def options_of(arguments: Any, spinner: Spinner) -> dict[str, Any]:
    """The options of a lease."""
    return {
        "ttl": arguments.ttl,
        "wait": arguments.wait,
        "owner": owner_of(arguments),
        "metadata": arguments.metadata,
        "lock_delay": getattr(arguments, "lock_delay", None),
        "session_id": getattr(arguments, "session_id", None),
        "on_wait": spinner.show,
    }


class Spinner:
    """A line on the terminal while a command waits: for which owner, in which position. Elsewhere it does nothing."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._held: Holder | None = None
        self._since = time.monotonic()
        self._thread: threading.Thread | None = None
        self._done = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self._done.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def show(self, held: Holder) -> None:
        self._held = held
        if self._thread is None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
            self._thread = threading.Thread(target=self._spin, daemon=True)
            self._thread.start()

    def text(self) -> str:
        parts = [f"Waiting for {self._label}"]
        if self._held is not None:
            if self._held.owner:
                parts.append(f"held by {sanitize(self._held.owner)}")
            # The first answer comes before we are in the queue.
            parts.append(f"position {self._held.queue_position or self._held.waiters + 1}")
            if self._held.expires_at:
                parts.append(until(self._held.expires_at))
        return f"{', '.join(parts)} ({format_duration(time.monotonic() - self._since)})"

    def _spin(self) -> None:
        frame = 0
        while not self._done.wait(FRAME_SECONDS):
            width = shutil.get_terminal_size().columns - 3
            sys.stderr.write(f"\r\x1b[K{FRAMES[frame % len(FRAMES)]} {self.text()[:width]}")
            sys.stderr.flush()
            frame += 1
