"""An answer that goes out piece by piece, for as long as the client stays.

Whoever makes it, a thread or the loop, waits until each piece is on its way: a slow client slows its stream
down instead of filling the memory.
"""

import asyncio
from collections.abc import Iterable

from octoadmin.serving.asgi_types import Headers, Message, Receive, Send

# A client that takes nothing for so long is given up, because its stream holds a thread.
STALL_SECONDS = 30.0


class Stalled(Exception):
    """The client stays but takes nothing."""


class StreamedAnswer:
    def __init__(self, receive: Receive, send: Send) -> None:
        self._loop = asyncio.get_running_loop()
        self._receive = receive
        self._send = send
        self._departure: asyncio.Task[None] | None = None
        self.status: int | None = None

    async def pass_on(self, message: Message) -> bool:
        """On the loop. False if the client has gone."""
        if self._departure is None:
            self._departure = asyncio.create_task(self._client_departs())
        if self._departure.done():
            return False
        await self._send(message)
        return True

    def run(self, status: int, headers: Headers, chunks: Iterable[bytes]) -> None:
        """On a thread: sends everything, or as much as the client stays for. Raises Stalled."""
        self.status = status
        self._pass_on({"type": "http.response.start", "status": status, "headers": headers})
        for chunk in chunks:
            if chunk and not self._pass_on({"type": "http.response.body", "body": chunk, "more_body": True}):
                return
        self._pass_on({"type": "http.response.body", "body": b""})

    def end(self) -> None:
        """On the loop, when all is over."""
        if self._departure is not None:
            self._departure.cancel()

    def _pass_on(self, message: Message) -> bool:
        sending = asyncio.run_coroutine_threadsafe(self.pass_on(message), self._loop)
        try:
            return sending.result(STALL_SECONDS)
        except TimeoutError:
            sending.cancel()
            raise Stalled from None

    async def _client_departs(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
