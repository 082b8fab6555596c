"""A keep-alive connection to the API, for one task of an event loop."""

import asyncio
import json
from contextlib import suppress
from typing import Any

from octoadmin.http.asgi_types import Headers
from tests.octoadmin.http_client import Reply, head_of, read_reply


def headers_of(token: str, body: bytes = b"") -> Headers:
    headers = [(b"host", b"127.0.0.1"), (b"authorization", f"Bearer {token}".encode())]
    if body:
        headers += [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    return headers


class Connection:
    def __init__(self, port: int, token: str) -> None:
        self._port = port
        self._token = token
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def call(self, method: str, path: str, body: Any = None) -> Reply:
        """Raises OSError and IncompleteReadError if the server closes the connection instead of an answer."""
        data = b"" if body is None else json.dumps(body).encode()
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        try:
            writer.write(head_of(method, path, headers_of(self._token, data)) + data)
            reply = await read_reply(reader)
        except BaseException:
            await self.aclose()
            raise
        if reply.headers.get("connection") == "close":
            await self.aclose()
        return reply

    async def aclose(self) -> None:
        if self._streams is not None:
            (_, writer), self._streams = self._streams, None
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
