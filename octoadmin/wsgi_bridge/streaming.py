"""Sends a response piece by piece, for as long as the client stays.

The producer, a thread or the loop, waits until each piece was taken over: a slow client slows its stream down instead
of filling the memory.
"""

import asyncio
from collections.abc import Iterable

from locks.async_responses import wait_for_disconnect
from octoadmin.http.asgi_types import Headers, Message, Receive, Send

# A client that reads nothing for so long is disconnected: its stream holds a thread.
STALL_SECONDS = 30.0


class Stalled(Exception):
    """The client is connected but reads nothing."""


class StreamSender:
    def __init__(self, receive: Receive, send: Send) -> None:
        self._loop = asyncio.get_running_loop()
        self._receive = receive
        self._send = send
        self._disconnect: asyncio.Task[None] | None = None
        # Of the response that `run` has started.
        self.status: int | None = None

    async def send(self, message: Message) -> bool:
        """On the loop. False if the client has disconnected."""
        if self._disconnect is None:
            self._disconnect = asyncio.create_task(wait_for_disconnect(self._receive))
        if self._disconnect.done():
            return False
        await self._send(message)
        return True

    def run(self, status: int, headers: Headers, chunks: Iterable[bytes]) -> None:
        """On a thread: sends everything, or until the client disconnects. Raises Stalled."""
        self.status = status
        self._send_from_thread({"type": "http.response.start", "status": status, "headers": headers})
        for chunk in chunks:
            if chunk and not self._send_from_thread({"type": "http.response.body", "body": chunk, "more_body": True}):
                return
        self._send_from_thread({"type": "http.response.body", "body": b""})

    def end(self) -> None:
        """On the loop, after the response."""
        if self._disconnect is not None:
            self._disconnect.cancel()

    def _send_from_thread(self, message: Message) -> bool:
        sending = asyncio.run_coroutine_threadsafe(self.send(message), self._loop)
        try:
            return sending.result(STALL_SECONDS)
        except TimeoutError:
            sending.cancel()
            raise Stalled from None
