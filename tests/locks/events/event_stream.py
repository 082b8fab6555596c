"""A client for Server-Sent Events that remembers the last event id, as the standard says."""

import http.client
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass
class ReceivedEvent:
    event: str
    data: Any
    id: str | None


@dataclass
class EventStream:
    port: int
    path: str
    token: str | None
    last_event_id: str | None = None
    comments: list[str] = field(default_factory=list)
    status: int = 0
    error: Any = None
    _connection: http.client.HTTPConnection | None = None
    _response: http.client.HTTPResponse | None = None

    def connect(self) -> "EventStream":
        self.close()
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        if self.last_event_id is not None:
            headers["Last-Event-ID"] = self.last_event_id
        self._connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        self._connection.request("GET", self.path, headers=headers)
        self._response = self._connection.getresponse()
        self.status = self._response.status
        if self.status != 200:
            self.error = json.loads(self._response.read())
        return self

    def close(self) -> None:
        if self._response is not None:
            self._response.close()
        if self._connection is not None:
            self._connection.close()

    def events(self) -> Iterator[ReceivedEvent]:
        """Until the stream ends or the connection breaks."""
        assert self._response is not None
        fields: dict[str, str] = {}
        try:
            for raw in self._response:
                line = raw.decode().rstrip("\n")
                if line.startswith(":"):
                    self.comments.append(line[2:])
                elif line:
                    name, _, value = line.partition(": ")
                    fields[name] = value
                else:
                    self.last_event_id = fields.get("id", self.last_event_id)
                    if "data" in fields:
                        yield ReceivedEvent(
                            fields.get("event", "message"), json.loads(fields["data"]), fields.get("id")
                        )
                    fields = {}
        except (OSError, http.client.HTTPException, AttributeError):
            # AttributeError: another thread has closed it.
            return
