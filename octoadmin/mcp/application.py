"""The ASGI application of /mcp.

A tool call is a request to the API with the caller's own token, so tokens, scopes, limits, errors and history are the
API's. Before the protocol is spoken at all, /whoami has to accept the token: what it refuses is answered as it answers.
Nothing is kept from one request to the next.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import httpx
import structlog
from mcp.server import ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from locks.api.errors import ApiError, new_request_id, overloaded
from octo.async_client import AsyncClient
from octo.mcp.server import build
from octo.mcp.tools import Call
from octoadmin.http.asgi_types import CLIENT_GONE_STATUS, Application, ClientGone, Message, Receive, Scope, Send
from octoadmin.http.deferred import send_response, with_error_headers
from octoadmin.http.request_log import log_request
from octoadmin.mcp.transport import InProcessTransport
from octoadmin.monitoring.request_metrics import count_request, requests_in_flight
from octoadmin.wsgi_bridge.request_body import BodyBudget, read_within

PATH = "/mcp"
# Requests in progress, waiting tools included: of this process, and of one team in it.
MAX_REQUESTS = 2000
MAX_REQUESTS_PER_TEAM = 500
# A KV value of 1 MiB, as JSON within JSON.
MAX_BODY = 4 * 1024 * 1024
# Of bodies in memory, from their first byte until the answer: of this process, and of one team in it.
MAX_BYTES = 64 * 1024 * 1024
MAX_BYTES_PER_TEAM = 16 * 1024 * 1024
_IDENTITY = "octoadmin.identity"
# Host and scheme are replaced by those of the MCP request.
_API = "http://octoadmin"

_log = structlog.stdlib.get_logger(__name__)


class McpApplication:
    """`api` is the application that answers all other requests."""

    def __init__(self, api: Application) -> None:
        self._api = api
        self._requests: Counter[str] = Counter()
        self._bodies = BodyBudget(MAX_BYTES, MAX_BYTES_PER_TEAM)
        self._runner: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._manager = StreamableHTTPSessionManager(
            build(_connect(api)), stateless=True, max_request_body_size=MAX_BODY
        )

    async def start(self) -> None:
        started = asyncio.Event()
        self._runner = asyncio.create_task(self._run(started))
        await started.wait()

    async def _run(self, started: asyncio.Event) -> None:
        """The manager has to be entered and left by the same task."""
        async with self._manager.run():
            started.set()
            await self._stopping.wait()

    async def stop(self) -> None:
        self._stopping.set()
        if self._runner is not None:
            await self._runner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        request_id = new_request_id()
        status = CLIENT_GONE_STATUS
        token: str | None = None

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                known = {name for name, _ in message["headers"]}
                own = [(b"x-request-id", request_id.encode()), (b"cache-control", b"no-store")]
                message = {**message, "headers": [*message["headers"], *(one for one in own if one[0] not in known)]}
            await send(message)

        requests_in_flight.inc()
        try:
            identity = await self._identify(scope)
            if identity.status_code != 200:
                headers = [pair for pair in identity.headers.raw if pair[0] not in (b"content-length", b"allow")]
                await send_response(send_with_id, identity.status_code, headers, identity.content)
                return
            scope[_IDENTITY] = identity.json()
            token = scope[_IDENTITY]["token"]["public_id"]
            await self._serve(scope[_IDENTITY]["team"], scope, receive, send_with_id, request_id)
        except ClientGone:
            status = CLIENT_GONE_STATUS
        finally:
            requests_in_flight.dec()
            seconds = time.perf_counter() - started
            count_request(kind="mcp", method=scope["method"], status=status, seconds=seconds)
            context = {"request_id": request_id, "token": token}
            log_request(method=scope["method"], path=PATH, status=status, seconds=seconds, **context)

    async def _serve(self, team: str, scope: Scope, receive: Receive, send: Send, request_id: str) -> None:
        body = b""
        self._requests[team] += 1
        try:
            if self._requests.total() > MAX_REQUESTS or self._requests[team] > MAX_REQUESTS_PER_TEAM:
                raise overloaded()
            body = await read_within(
                receive, self._bodies, owner=team, length=_announced_length(scope), max_body=MAX_BODY
            )
            await self._manager.handle_request(scope, _replay(body, receive), cast(Any, send))
        except ApiError as error:
            # The rest of the body may still come: the next request needs another connection.
            headers = with_error_headers([(b"connection", b"close")], error, request_id=request_id)
            await send_response(send, error.status, headers, error.body(request_id=request_id))
        finally:
            self._bodies.give_back(team, len(body))
            self._requests[team] -= 1
            if not self._requests[team]:
                del self._requests[team]

    async def _identify(self, scope: Scope) -> httpx.Response:
        """What /whoami answers to the request's own headers."""
        headers = [pair for pair in scope["headers"] if pair[0] in (b"authorization", b"user-agent")]
        request = httpx.Request("GET", f"{_API}/whoami", headers=headers)
        return await InProcessTransport(self._api, scope).handle_async_request(request)


def _announced_length(scope: Scope) -> int | None:
    """None if only its end tells how long the body is."""
    headers = dict(scope["headers"])
    length: bytes = headers.get(b"content-length", b"")
    if length.isdigit() and len(length) < 20:
        return int(length)
    return None if b"transfer-encoding" in headers or scope["http_version"] >= "2" else 0


def _replay(body: bytes, receive: Receive) -> Receive:
    parts = [body]

    async def replay() -> Message:
        if parts:
            return {"type": "http.request", "body": parts.pop(), "more_body": False}
        return await receive()

    return replay


def _connect(api: Application) -> Any:
    @asynccontextmanager
    async def connect(context: ServerRequestContext[Any, Any]) -> AsyncIterator[Call]:
        assert context.request is not None
        scope = context.request.scope
        token = context.request.headers["authorization"].split(" ", 1)[1].strip()

        async def progress(share: float, message: str) -> None:
            await context.session.report_progress(share, 1.0, message)

        transport = InProcessTransport(api, scope)
        # Nothing is retried: the caller decides, and no connection can break on the way.
        async with AsyncClient(_API, token, allow_http=True, retry_for=0, transport=transport, program="mcp") as client:
            yield Call(client, progress, is_actor=scope[_IDENTITY].get("actor") is not None)

    return connect
