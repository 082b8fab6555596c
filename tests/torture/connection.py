"""A keep-alive connection to the API, for one task of an event loop."""

import asyncio
import json
from typing import Any, cast

from octoadmin.http.asgi_types import Headers
from tests.octoadmin.http_client import Reply, head_of

# Longer than any request may wait.
ANSWER_SECONDS = 65.0


def headers_of(token: str, body: bytes = b"") -> Headers:
    headers = [(b"host", b"127.0.0.1"), (b"authorization", f"Bearer {token}".encode())]
    if body:
        headers += [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    return headers


class Connection:
    def __init__(self, port: int, token: str) -> None:
        self._port = port
        self._token = token
        self._answers: _Answers | None = None

    async def call(self, method: str, path: str, body: Any = None, headers: Headers | None = None) -> Reply:
        """Raises OSError if the server closes the connection instead of an answer, and ConnectionRefusedError if it
        does not listen: then the request has not reached it."""
        data = b"" if body is None else json.dumps(body).encode()
        if self._answers is None or self._answers.is_closed:
            loop = asyncio.get_running_loop()
            _, self._answers = await loop.create_connection(_Answers, "127.0.0.1", self._port)
        try:
            return await self._answers.ask(
                head_of(method, path, headers_of(self._token, data) + (headers or [])) + data
            )
        except BaseException:
            await self.aclose()
            raise

    async def aclose(self) -> None:
        if self._answers is not None:
            self._answers.close()
            self._answers = None


class _Answers(asyncio.Protocol):
    """Reads one answer at a time. Streams of asyncio would cost twice as much."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[Reply] | None = None
        self._data = b""
        self.is_closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    async def ask(self, request: bytes) -> Reply:
        assert self._transport is not None
        loop = asyncio.get_running_loop()
        answer = self._answer = loop.create_future()
        timer = loop.call_later(ANSWER_SECONDS, self._fail, TimeoutError("no answer in time"))
        self._transport.write(request)
        try:
            return await answer
        finally:
            timer.cancel()

    def data_received(self, data: bytes) -> None:
        self._data += data
        head, separator, body = self._data.partition(b"\r\n\r\n")
        if not separator or self._answer is None or self._answer.done():
            return
        status, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        length = int(headers.get("content-length", "0"))
        if len(body) < length:
            return
        self._data = body[length:]
        if headers.get("connection") == "close":
            self.close()
        self._answer.set_result(Reply(int(status.split()[1]), headers, body[:length]))

    def connection_lost(self, error: Exception | None) -> None:
        self.is_closed = True
        self._fail(error if isinstance(error, OSError) else ConnectionResetError("closed by the server"))

    def close(self) -> None:
        self.is_closed = True
        if self._transport is not None:
            self._transport.close()

    def _fail(self, error: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
