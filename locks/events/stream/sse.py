"""Server-Sent Events over ASGI: framing, and one open response. Used by watches and by the pages' live stream."""

import asyncio
from types import TracebackType
from typing import Self

from locks.async_responses import Receive, Send, wait_for_disconnect
from locks.events.stream.memory import Account

# A client that accepts nothing for so long is disconnected.
STALL_SECONDS = 30.0
# The server buffers a whole message for a client that does not read.
MAX_MESSAGE = 64 * 1024

HEADERS = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-store",
    # Keeps proxies from buffering the response.
    "X-Accel-Buffering": "no",
}


def event(name: str, data: bytes = b"") -> bytes:
    """`data` has no line break; JSON from msgspec never has one."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), data)


def without_name(chunk: bytes) -> bytes:
    """An event without its name, which browsers then deliver as a plain message."""
    return chunk.partition(b"\n")[2]


def comment(text: str) -> bytes:
    return b": %s\n\n" % text.encode()


def id_line(event_id: object) -> bytes:
    """Goes before an event or a comment: the browser sends the last one as `Last-Event-ID` when it reconnects."""
    return b"id: %s\n" % str(event_id).encode()


def retry_line(milliseconds: int) -> bytes:
    """Goes before an event or a comment: how long a client waits before it reconnects."""
    return b"retry: %d\n" % milliseconds


class EventStream:
    """The body of a response that has been started, on the event loop. Holds no thread and no database connection."""

    def __init__(self, receive: Receive, send: Send, account: Account | None = None) -> None:
        """With an account, the stream is one of those that end early when memory is short."""
        self._receive = receive
        self._send = send
        self._account = account

    async def __aenter__(self) -> Self:
        self._disconnect = asyncio.create_task(wait_for_disconnect(self._receive))
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> bool:
        """A stalled client ends the stream without an error: the response stays incomplete, so the server closes it."""
        self._disconnect.cancel()
        return isinstance(error, TimeoutError)

    @property
    def is_connected(self) -> bool:
        return not self._disconnect.done()

    async def send(self, chunk: bytes) -> None:
        """Raises TimeoutError if the client has stalled."""
        for start in range(0, len(chunk), MAX_MESSAGE):
            async with asyncio.timeout(STALL_SECONDS) as timeout:
                if self._account is not None:
                    self._account.start_waiting(timeout)
                try:
                    await self._send(
                        {"type": "http.response.body", "body": chunk[start : start + MAX_MESSAGE], "more_body": True}
                    )
                finally:
                    if self._account is not None:
                        self._account.stop_waiting()

    async def finish(self) -> None:
        await self._send({"type": "http.response.body", "body": b""})

    async def wait(self, ready: asyncio.Event, *, seconds: float | None = None) -> bool:
        """Until the event is set or the client disconnects; False if neither happened in time."""
        waiting = asyncio.create_task(ready.wait())
        try:
            done, _ = await asyncio.wait(
                {waiting, self._disconnect}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
            return bool(done)
        finally:
            waiting.cancel()
