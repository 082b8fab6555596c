"""`octo run --events`: what happens to the lease, as JSON lines."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from datetime import datetime, timezone
from typing import Any

from octo.answers import Held
from octo.grants import Grant


class Events:
    """Never a reason to stop: if nobody reads them any more, the work goes on."""

    def __init__(self, *, name: str, file: int | None) -> None:
        self._name = name
        self._file = file
        self._waiting_for: Held | None = None

    def print(self, event: str, **facts: Any) -> None:
        if self._file is None:
            return
        at = datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        told = {field: value for field, value in facts.items() if value is not None}
        line = json.dumps({"event": event, "at": at, "lock": self._name, **told}, ensure_ascii=False)
        with suppress(OSError):
            os.write(self._file, f"{line}\n".encode())

    def waiting(self, held: Held) -> None:
        """Once for each holder and length of the queue, however often we ask."""
        before, self._waiting_for = self._waiting_for, held
        if before and (before.fencing_token, before.waiters) == (held.fencing_token, held.waiters):
            return
        self.print("waiting", owner=held.owner, waiters=held.waiters, expires_at=_text(held.expires_at))

    def lease(self, event: str, lease: Grant, detail: str = "") -> None:
        self.print(
            event, fencing_token=lease.fencing_token, owner=lease.owner, expires_at=_text(lease.expires_at),
            detail=detail or None,
        )  # fmt: skip


def _text(time: datetime | None) -> str | None:
    return time.isoformat().replace("+00:00", "Z") if time else None
