"""Load over raw sockets: many concurrent requests, with the time of each.

It uses one event loop and no HTTP library, so that the client needs less CPU than the server.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Answer:
    """Times of the monotonic clock; `sent` is before the first byte."""

    sent: float
    answered: float
    status: int


def request(method: str, path: str, token: str, body: bytes = b"") -> bytes:
    content = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if method == "POST" else ""
    return (
        f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n{content}\r\n".encode() + body
    )


class _Caller(asyncio.Protocol):
    """A keep-alive connection that sends the next request after each answer."""

    def __init__(self, requests: Iterator[bytes], answers: list[Answer]) -> None:
        self._requests = requests
        self._answers = answers
        self._received = b""
        self._sent = 0.0
        self._is_over = False
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._send()

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, found, body = self._received.partition(b"\r\n\r\n")
        if not found or len(body) < _length(head):
            return
        self._received = b""
        self._answers.append(Answer(self._sent, time.monotonic(), int(head[9:12])))
        if self._is_over:
            self._transport.close()
        else:
            self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(exc)

    def stop(self) -> None:
        """After the next answer."""
        self._is_over = True

    def _send(self) -> None:
        request = next(self._requests)
        self._sent = time.monotonic()
        self._transport.write(request)


def _length(head: bytes) -> int:
    return int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)


def run_load(
    *, port: int, connections: int, requests: Callable[[int], Iterator[bytes]], before: float, after: float,
    act: Callable[[], object],
) -> tuple[list[Answer], float]:  # fmt: skip
    """Keeps all connections busy, and runs `act` on a thread meanwhile: `before` and `after` it for so many seconds, or
    on a slow machine until each connection has two answers. Returns the answers, and the time when `act` returned."""

    async def run() -> tuple[list[Answer], float]:
        loop = asyncio.get_running_loop()
        answers: list[Answer] = []
        callers = [
            (await loop.create_connection(lambda n=n: _Caller(requests(n), answers), "127.0.0.1", port))[1]
            for n in range(connections)
        ]
        await asyncio.sleep(before)
        while len(answers) < 2 * connections:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        acted = await asyncio.to_thread(lambda: (act(), time.monotonic())[1])
        await asyncio.sleep(after)
        while sum(answer.sent > acted for answer in answers) < 2 * connections:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        for caller in callers:
            caller.stop()
        assert set(await asyncio.gather(*(caller.done for caller in callers))) == {None}
        return answers, acted

    return asyncio.run(run())
