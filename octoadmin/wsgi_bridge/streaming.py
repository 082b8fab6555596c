"""Sends a response piece by piece, on the event loop, for as long as the client stays.

The next piece is produced when the last one was taken over: a slow client slows its own stream down instead of filling
the memory.
"""

import asyncio

from locks.async_responses import wait_for_disconnect
from octoadmin.http.asgi_types import Message, Receive, Send

# A client that reads nothing for so long is disconnected.
STALL_SECONDS = 30.0
# What the server buffers for a client that reads nothing.
MAX_MESSAGE = 64 * 1024


class StreamSender:
    def __init__(self, receive: Receive, send: Send) -> None:
        self._send = send
        self._disconnect = asyncio.create_task(wait_for_disconnect(receive))

    async def send(self, message: Message) -> bool:
        """False if the client has disconnected. Raises TimeoutError if it reads nothing."""
        if self._disconnect.done():
            return False
        async with asyncio.timeout(STALL_SECONDS):
            await self._send(message)
        return True

    async def send_piece(self, piece: bytes) -> bool:
        for start in range(0, len(piece), MAX_MESSAGE):
            body = piece[start : start + MAX_MESSAGE]
            if not await self.send({"type": "http.response.body", "body": body, "more_body": True}):
                return False
        return True

    def end(self) -> None:
        self._disconnect.cancel()
