"""A stream of server-sent events that resumes where it broke, without I/O."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from octo import clock, errors, models, operations
from octo.models import ElectionInfo, WatchEvent, expect
from octo.protocol import Request, Response, backoff, check_response, election_path, lock_path, with_query

# The server sends at least a comment every 15 seconds.
MAX_SILENCE = 35.0


Event = TypeVar("Event")


class EventStream(Generic[Event]):
    """`parse` makes events of the fields of a frame."""

    def __init__(
        self, path: str, parse: Callable[[dict[str, str]], list[Event]], *, retry_for: float, after: str | None = None
    ) -> None:
        self._path = path
        self._parse = parse
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
        return Request("GET", self._path, headers=headers, timeout=MAX_SILENCE)

    def check_response(self, response: Response) -> None:
        """Raises TransportError if another attempt may help, and the API's refusal if not."""
        refusal = check_response(response)
        if isinstance(refusal, errors.PositionExpired):
            # What was missed is gone; a new snapshot tells the state.
            self._position = None
        elif refusal is not None and not (refusal.status == 429 or refusal.status >= 500):
            raise refusal
        if refusal is not None:
            raise errors.TransportError(refusal.details)
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            raise models.invalid("an event stream")

    def next_backoff(self, problem: errors.TransportError | None) -> float:
        """After how many seconds to connect again. Raises after `retry_for` seconds without an event."""
        now = clock.now()
        if self._broken_since is None:
            self._broken_since = now
        pause = backoff(self._attempt)
        self._attempt += 1
        if now + pause - self._broken_since > self._retry_for:
            raise problem or errors.TransportError("The server ends the stream again and again.")
        return pause

    def feed_line(self, line: str) -> list[Event]:
        self._attempt, self._broken_since = 0, None
        field, _, value = line.rstrip("\r\n").partition(":")
        if field:
            before = f"{self._fields[field]}\n" if field == "data" and field in self._fields else ""
            self._fields[field] = before + value.removeprefix(" ")
            return []
        if line.strip():
            return []
        fields, self._fields = self._fields, {}
        events = self._parse(fields) if "data" in fields else []
        if fields.get("id"):
            self._position = fields["id"]
        return events


def lock_events(
    *, name: str | None, prefix: str | None, after: str | None, retry_for: float
) -> EventStream[WatchEvent]:
    path = lock_path(name, "watch") if name else with_query("/watch", {"prefix": prefix})
    return EventStream(path, _lock_events, retry_for=retry_for, after=after)


def election_events(room: str, *, retry_for: float) -> EventStream[ElectionInfo]:
    """Without positions: a stream that broke begins again with the present state."""
    return EventStream(
        election_path(room, "watch"),
        lambda fields: [operations.parse_election(_body(fields))] if fields.get("event") == "state" else [],
        retry_for=retry_for,
    )


def _body(fields: dict[str, str]) -> dict[str, Any]:
    try:
        return expect(json.loads(fields["data"]))
    except (ValueError, RecursionError):
        raise models.invalid("an event") from None


def _lock_events(fields: dict[str, str]) -> list[WatchEvent]:
    body = expect(_body(fields), event=str)
    position = fields.get("id") or None
    if body["event"] != "snapshot":
        return [models.parse(WatchEvent, body, id=position)]
    known = {"event": "snapshot", "observed_at": body.get("observed_at"), "id": position}
    locks = expect(body, locks=list)["locks"]
    return [models.parse(WatchEvent, lock, lock_name=expect(lock, name=str)["name"], **known) for lock in locks]
