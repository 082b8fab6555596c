"""Clients that wait, each on a connection of its own: with few threads they would not wait at the same time."""

import json
import socket
import threading
import time
from typing import Any

from tests.fault_proxy import FaultProxy
from tests.servers import RunningServer

MAX_WAIT = 30


class Waiter:
    """A request that was sent and not answered yet."""

    def __init__(
        self, server: RunningServer | FaultProxy, token: str, path: str, body: dict[str, Any], **headers: str
    ) -> None:
        self._socket = socket.create_connection(("127.0.0.1", server.port), timeout=MAX_WAIT)
        content = json.dumps(body).encode()
        lines = [
            f"POST {path} HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {token}",
            "Content-Type: application/json", f"Content-Length: {len(content)}", "Connection: close",
            *(f"{name}: {value}" for name, value in headers.items()),
        ]  # fmt: skip
        self._socket.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + content)

    def received(self) -> bytes:
        """All that comes until the connection ends."""
        received = b""
        while chunk := self._socket.recv(65536):
            received += chunk
        self._socket.close()
        return received

    def answer(self) -> tuple[int, Any]:
        head, _, body = self.received().partition(b"\r\n\r\n")
        self.answered_at = time.monotonic()
        return int(head.split()[1]), json.loads(body)

    def disconnect(self) -> None:
        self._socket.close()


def waits_for(
    server: RunningServer | FaultProxy,
    token: str,
    name: str,
    *,
    seconds: int = 50,
    key: str | None = None,
    **terms: Any,
):
    headers = {"Idempotency-Key": key} if key else {}
    return Waiter(server, token, f"/locks/{name}/acquire", {"wait_seconds": seconds, **terms}, **headers)


class Workers:
    """Threads, and the errors that they raised."""

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []
        self.errors: list[BaseException] = []

    def start(self, work: Any, *arguments: Any) -> None:
        def run() -> None:
            try:
                work(*arguments)
            except BaseException as error:
                self.errors.append(error)

        thread = threading.Thread(target=run, daemon=True)
        self._threads.append(thread)
        thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join(MAX_WAIT)
            assert not thread.is_alive()
        assert not self.errors, self.errors
