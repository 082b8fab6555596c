"""The web server in this process, and a client that sends HTTP to it byte by byte."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn

from octoadmin.http.asgi_types import Application, Headers, Receive, Scope, Send
from octoadmin.run.server import config
from tests.polling import async_until


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@asynccontextmanager
async def listening(application: Application) -> AsyncIterator[int]:
    """Its port."""

    async def with_lifespan(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            await application(scope, receive, send)
            return
        for phase in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{phase}.complete"})

    listener = socket.create_server(("127.0.0.1", 0))
    port: int = listener.getsockname()[1]
    server = uvicorn.Server(config(with_lifespan))
    serving = asyncio.create_task(server.serve([listener]))
    try:
        await async_until(lambda: server.started or serving.done())
        assert server.started
        yield port
    finally:
        server.should_exit = True
        await serving


def head_of(method: str, path: str, headers: Headers) -> bytes:
    lines = b"".join(b"%b: %b\r\n" % header for header in headers)
    return b"%b %b HTTP/1.1\r\n%b\r\n" % (method.encode(), path.encode(), lines)


async def read_reply(reader: asyncio.StreamReader) -> Reply:
    status, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines if line)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Reply(int(status.split()[1]), headers, body)


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.close()


async def ask(
    port: int, method: str, path: str, headers: Headers | None = None, *, pieces: Iterable[bytes] = ()
) -> Reply:
    """On its own connection. The head is sent with the first piece of the body, and the others after a moment."""
    first, *rest = [*pieces] or [b""]
    async with connected(port) as (reader, writer):
        writer.write(head_of(method, path, headers or []) + first)
        for piece in rest:
            await asyncio.sleep(0.002)
            writer.write(piece)
        return await read_reply(reader)


def chunked(pieces: Sequence[bytes]) -> list[bytes]:
    return [*(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces if piece), b"0\r\n\r\n"]
