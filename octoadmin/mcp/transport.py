"""Requests of the tools to this server's own ASGI application, without a socket."""

import asyncio

import httpx

from octoadmin.http.asgi_types import Application, Headers, Message, Scope

# Headers of the MCP request that say where it comes from: the API judges the tools' requests by the same client.
_FORWARDED = (b"host", b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto")

# Requests whose caller was cancelled: the application notices that its client has gone, and finishes by itself.
_leaving: set[asyncio.Task[None]] = set()


class InProcessTransport(httpx.AsyncBaseTransport):
    """Each request is a task of its own. If its caller is cancelled, the application sees a client that disconnects, as
    it would over a socket: a waiting request leaves the queue."""

    def __init__(self, application: Application, outer: Scope) -> None:
        self._application = application
        self._outer = outer
        self._forwarded: Headers = [pair for pair in outer["headers"] if pair[0] in _FORWARDED]

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        body = await request.aread()
        gone = asyncio.Event()
        start: Message = {}
        content = bytearray()
        received = False

        async def receive() -> Message:
            nonlocal received
            if received:
                await gone.wait()
                return {"type": "http.disconnect"}
            received = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
            else:
                content.extend(message.get("body", b""))

        task: asyncio.Task[None] = asyncio.create_task(self._application(self._scope(request), receive, send))  # type: ignore[arg-type]
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            gone.set()
            _leaving.add(task)
            task.add_done_callback(_leaving.discard)
            raise
        return httpx.Response(start["status"], headers=start["headers"], content=bytes(content), request=request)

    def _scope(self, request: httpx.Request) -> Scope:
        raw_path, _, query = request.url.raw_path.partition(b"?")
        own = [(name.lower(), value) for name, value in request.headers.raw if name.lower() not in _FORWARDED]
        return {
            "type": "http",
            "asgi": self._outer["asgi"],
            "http_version": "1.1",
            "method": request.method,
            "scheme": self._outer["scheme"],
            "path": request.url.path,
            "raw_path": raw_path,
            "query_string": query,
            "root_path": "",
            "headers": [*self._forwarded, *own],
            "client": self._outer["client"],
            "server": self._outer["server"],
        }
