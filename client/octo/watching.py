"""What a watch is made of, without a connection: what to ask for, what the lines mean, when to ask again."""

from __future__ import annotations

import json
from typing import Any

from octo import answers, clock, errors, paths
from octo.exchange import backoff, refused
from octo.steps import Request, Response

# The server sends at least a comment every 15 seconds.
LONGEST_SILENCE = 35.0


class Watching:
    """A stream of server-sent events that goes on where it was cut off."""

    def __init__(self, *, name: str | None, prefix: str | None, after: str | None, retry_for: float) -> None:
        self._path = paths.lock(name, "watch") if name else paths.query("/watch", {"prefix": prefix})
        self._retry_for = retry_for
        self._position = after
        self._attempt = 0
        self._broken_since: float | None = None
        self._fields: dict[str, str] = {}

    def request(self) -> Request:
        headers = {"Accept": "text/event-stream"}
        if self._position:
            headers["Last-Event-ID"] = self._position
        self._fields = {}
        return Request("GET", self._path, headers=headers, timeout=LONGEST_SILENCE)

    def connected(self, response: Response) -> None:
        """Raises if there is no point in asking again."""
        problem = refused(response)
        if isinstance(problem, errors.PositionExpired):
            # What was missed is gone; a new snapshot tells how things are.
            self._position = None
        elif problem is not None and not (problem.status == 429 or problem.status >= 500):
            raise problem
        if problem is not None:
            raise errors.Unreachable(problem.details)
        self._attempt = 0
        self._broken_since = None

    def broken(self, problem: errors.Unreachable | None) -> float:
        """After how many seconds to connect again. Raises when it was tried for long enough."""
        now = clock.now()
        if self._broken_since is None:
            self._broken_since = now
        pause = backoff(self._attempt)
        self._attempt += 1
        if now + pause - self._broken_since > self._retry_for:
            raise problem or errors.Unreachable("The server ends the stream again and again.")
        return pause

    def feed(self, line: bytes) -> list[answers.WatchEvent]:
        field, _, value = line.decode(errors="replace").rstrip("\r\n").partition(":")
        if field:
            before = f"{self._fields[field]}\n" if field == "data" and field in self._fields else ""
            self._fields[field] = before + value.removeprefix(" ")
            return []
        if line.strip():
            return []
        fields, self._fields = self._fields, {}
        if fields.get("id"):
            self._position = fields["id"]
        return self._events(fields) if "data" in fields else []

    def _events(self, fields: dict[str, str]) -> list[answers.WatchEvent]:
        told: dict[str, Any] = json.loads(fields["data"])
        place = fields.get("id") or None
        if told.get("event") != "snapshot":
            return [answers.read(answers.WatchEvent, told, id=place)]
        seen = {"event": "snapshot", "observed_at": told.get("observed_at"), "id": place}
        return [answers.read(answers.WatchEvent, lock, lock_name=lock["name"], **seen) for lock in told["locks"]]
