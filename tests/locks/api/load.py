"""Many requests at once over raw sockets, each timed when it is sent: what a thousand a second look like to a server.

One event loop and no HTTP library, so that the client costs less than the server it is to keep busy.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Answered:
    """Times are of the monotonic clock; `sent` is from before the first byte went out."""

    sent: float
    answered: float
    status: int


def request(method: str, path: str, token: str, body: bytes = b"") -> bytes:
    content = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if method == "POST" else ""
    return (
        f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n{content}\r\n".encode() + body
    )


class _Caller(asyncio.Protocol):
    """A keep-alive connection that sends the next request as soon as it has its answer."""

    def __init__(self, requests: Iterator[bytes], answers: list[Answered]) -> None:
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
        self._answers.append(Answered(self._sent, time.monotonic(), int(head[9:12])))
        if self._is_over:
            self._transport.close()
        else:
            self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(exc)

    def stop(self) -> None:
        """After the answer that is under way."""
        self._is_over = True

    def _send(self) -> None:
        wanted = next(self._requests)
        self._sent = time.monotonic()
        self._transport.write(wanted)


def _length(head: bytes) -> int:
    return int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)


def storm(
    *, port: int, connections: int, requests: Callable[[int], Iterator[bytes]], before: float, after: float,
    act: Callable[[], object],
) -> tuple[list[Answered], float]:  # fmt: skip
    """Keeps the connections busy, does `act` on a thread in the midst of it, and goes on; for so many seconds or, where
    the machine is slow, until there are two answers for each connection. Tells what was answered, and when `act` had
    returned."""

    async def run() -> tuple[list[Answered], float]:
        loop = asyncio.get_running_loop()
        answers: list[Answered] = []
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
