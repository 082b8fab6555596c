"""Speaks ASGI to an application directly, as a server would."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpResponse

from octoadmin.wsgi_bridge.bridge import WSGIBridge


@dataclass
class Reply:
    messages: list[dict[str, Any]] = field(default_factory=list)

    @property
    def status(self) -> int:
        return self.messages[0]["status"]

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode(): value.decode("latin-1") for name, value in self.messages[0]["headers"]}

    @property
    def body(self) -> bytes:
        return b"".join(message["body"] for message in self.messages[1:])

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def finished(self) -> bool:
        return bool(self.messages) and not self.messages[-1].get("more_body", False)


def request_scope(path: str = "/", **changes: Any) -> dict[str, Any]:
    raw_path, _, query = path.partition("?")
    return {
        "type": "http",
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": unquote(raw_path),
        "raw_path": raw_path.encode(),
        "query_string": query.encode(),
        "headers": [(b"host", b"localhost")],
        "client": ("192.0.2.1", "40000"),
        "server": ("127.0.0.1", "8000"),
        **changes,
    }


@dataclass
class Client:
    """One request's other end. `departed` makes it hang up; `before_taking` makes it a slow reader."""

    chunks: Iterable[bytes] = ()
    before_taking: Callable[[dict[str, Any]], Awaitable[None]] | None = None

    def __post_init__(self) -> None:
        self.reply = Reply()
        self.departed = asyncio.Event()
        self.asked = 0
        self._chunks = list(self.chunks) or [b""]

    async def receive(self) -> dict[str, Any]:
        self.asked += 1
        if self._chunks:
            chunk = self._chunks.pop(0)
            return {"type": "http.request", "body": chunk, "more_body": bool(self._chunks)}
        await self.departed.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: dict[str, Any]) -> None:
        if self.before_taking is not None:
            await self.before_taking(message)
        self.reply.messages.append(message)


async def ask(
    application: Callable[..., Awaitable[None]],
    path: str = "/",
    *,
    chunks: Iterable[bytes] = (),
    **scope: Any,
) -> Reply:
    client = Client(chunks=chunks)
    await application(request_scope(path, **scope), client.receive, client.send)
    return client.reply


@asynccontextmanager
async def running_bridge(handler: Callable[..., Any], **options: Any) -> AsyncIterator[WSGIBridge]:
    bridge = WSGIBridge(handler, **{"threads": 2, "trusted_proxies": [], **options})
    bridge.start()
    try:
        yield bridge
    finally:
        await asyncio.to_thread(bridge.stop)


def answering(view: Callable[[dict[str, Any]], Any]) -> Callable[..., Any]:
    """A stand-in for Django's WSGIHandler: the view gets the environ and returns a response of Django's."""

    def handler(environ: dict[str, Any], start_response: Callable[..., None]) -> Any:
        response = view(environ)
        headers = [
            *response.items(),
            *(("Set-Cookie", c.output(header="")) for c in response.cookies.values()),
        ]
        start_response(f"{response.status_code} {response.reason_phrase}", headers)
        return response

    return handler


def on_bridge(view: Callable[[dict[str, Any]], Any], talk: Callable[[WSGIBridge], Any], **options: Any) -> Any:
    """What `talk` returns, after talking to a bridge on which the view answers."""

    async def main() -> Any:
        async with running_bridge(answering(view), **options) as bridge:
            return await talk(bridge)

    return asyncio.run(main())


def body_of(environ: dict[str, Any], start_response: Callable[..., None]) -> HttpResponse:
    """A stand-in for Django's WSGIHandler that answers with the request's body."""
    return answering(lambda received: HttpResponse(WSGIRequest(received).read()))(environ, start_response)
