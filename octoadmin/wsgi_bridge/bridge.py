"""The ASGI application in front of Django's WSGI handler: reads the body, runs the handler on a thread, sends the
response. All sending happens on the event loop, so a client that reads slowly holds no thread."""

import asyncio
import hashlib
import time
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog
from django.http import FileResponse, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase

from locks.api.errors import ApiError, internal_error, new_request_id, overloaded
from locks.api.limits import limits
from locks.async_responses import AsyncResponse, DeferredResponse, LoopStreamingResponse
from locks.services.networks import network_of
from locks.system_state.db_health import drop_dead_connection
from octoadmin.http.asgi_types import CLIENT_GONE_STATUS, ClientGone, Headers, Receive, Scope, Send
from octoadmin.http.deferred import send_deferred, send_response
from octoadmin.http.proxies import Networks
from octoadmin.http.request_log import REQUEST_ID, log_request
from octoadmin.monitoring.request_metrics import count_request, requests_in_flight, requests_waiting
from octoadmin.wsgi_bridge.environ import Environ, attach_body, environ_of
from octoadmin.wsgi_bridge.request_body import BodyBudget, read_body
from octoadmin.wsgi_bridge.streaming import StreamSender
from octoadmin.wsgi_bridge.threads import Overloaded, Threads

MAX_WAITING = 1000
STOP_SECONDS = 3.0
NETWORK_GROUPS = 64
FILE_BLOCK = 64 * 1024
# Threads for what takes long: they begin watches and exports, produce the pieces of streams, and answer requests with
# large bodies. One space has one of them, so that many of these at once do not use all processors.
STREAM_THREADS = 2
# Of a request for about a hundred locks; few others have as many bytes.
LARGE_BODY = 1024
# Threads for health checks, keepalives and renewals only: these never wait behind pages.
URGENT_THREADS = 3

# Django's WSGIHandler, or a stand-in for it.
Handler = Callable[[Environ, Any], HttpResponseBase]

_log = structlog.stdlib.get_logger(__name__)


@dataclass(slots=True)
class Answer:
    status: int
    headers: Headers
    body: bytes = b""
    # A stream or file that continues after `body`.
    rest: StreamingHttpResponse | None = None
    # The event loop makes the rest of the response.
    on_loop: AsyncResponse | None = None


class WSGIBridge:
    """Its state changes on the event loop only."""

    def __init__(
        self, handler: Handler, *, threads: int, trusted_proxies: Networks, max_waiting: int = MAX_WAITING
    ) -> None:
        self._handler = handler
        self._trusted_proxies = trusted_proxies
        self._bodies = BodyBudget()
        self._threads = Threads(count=threads, max_waiting=max_waiting, name="django")
        self._urgent = Threads(count=URGENT_THREADS, max_waiting=max_waiting, name="django-urgent", takes_turns=False)
        self._producers = Threads(count=STREAM_THREADS, max_waiting=max_waiting, name="django-stream")
        self._streams: set[asyncio.Task[Any]] = set()

    def start(self) -> None:
        for threads in (self._threads, self._urgent, self._producers):
            threads.start()

    def stop(self) -> None:
        deadline = time.monotonic() + STOP_SECONDS
        for threads in (self._threads, self._urgent, self._producers):
            threads.stop(seconds=max(0.0, deadline - time.monotonic()))

    def end_streams(self) -> None:
        """They have no end of their own. Clients reconnect, to another server or to the next one."""
        for task in self._streams:
            task.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        request_id = new_request_id()
        status, kind = 500, "django"
        requests_in_flight.inc()
        try:
            answer = await self._answer(scope, receive, send, request_id)
            if answer.on_loop is None:
                status = answer.status
            else:
                kind = "stream" if isinstance(answer.on_loop, LoopStreamingResponse) else "waiting"
                status = await self._finish_on_loop(answer, answer.on_loop, receive, send, request_id)
                log_request(
                    method=scope["method"],
                    path=scope["path"],
                    status=status,
                    seconds=time.perf_counter() - started,
                    **answer.on_loop.log_context,
                )
        except ClientGone:
            status = CLIENT_GONE_STATUS
        except ApiError as error:
            status = error.status
            # The rest of the body may still come: the next request needs another connection.
            headers = [*_encode(list(error.headers(request_id=request_id).items())), (b"connection", b"close")]
            await send_response(send, status, headers, error.body(request_id=request_id))
        finally:
            requests_in_flight.dec()
            requests_waiting.set(self._threads.waiting)
            count_request(kind=kind, method=scope["method"], status=status, seconds=time.perf_counter() - started)

    async def _answer(self, scope: Scope, receive: Receive, send: Send, request_id: str) -> Answer:
        """What Django answers, sent already unless the event loop is to finish it. Raises ClientGone and ApiError."""
        environ = environ_of(scope, request_id=request_id, trusted_proxies=self._trusted_proxies)
        body = await read_body(scope, environ, receive, self._bodies)
        attach_body(environ, body)
        try:
            group = client_group(environ)
            answer = await self._run(environ, self._threads_for(scope, body), group)
            if answer.rest is not None:
                await self._send_rest(StreamSender(receive, send), answer, answer.rest, request_id, group)
            elif answer.on_loop is None:
                await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
                await send({"type": "http.response.body", "body": answer.body})
            return answer
        finally:
            self._bodies.give_back(network_of(environ.get("REMOTE_ADDR")), len(body))

    def _threads_for(self, scope: Scope, body: bytes) -> Threads:
        method, raw_path = scope["method"], scope["raw_path"]
        if is_urgent(method, raw_path):
            return self._urgent
        takes_long = begins_stream(method, raw_path) or len(body) > LARGE_BODY
        return self._producers if takes_long else self._threads

    async def _run(self, environ: Environ, threads: Threads, group: Hashable) -> Answer:
        try:
            job = threads.submit(partial(self._handle, environ), group=group)
            requests_waiting.set(self._threads.waiting)
            return await job
        except Overloaded:
            raise overloaded() from None
        except Exception:
            _log.exception("a request failed outside of Django's error handling", request_id=environ[REQUEST_ID])
            raise internal_error() from None

    def _handle(self, environ: Environ) -> Answer:
        """On a thread."""
        drop_dead_connection()
        status_line = "500"
        fields: list[tuple[str, str]] = []

        def start_response(line: str, headers: list[tuple[str, str]], _exc_info: Any = None) -> None:
            nonlocal status_line, fields
            status_line, fields = line, headers

        response = self._handler(environ, start_response)
        answer = Answer(int(status_line[:3]), _encode(fields))
        try:
            bodiless = environ["REQUEST_METHOD"] == "HEAD" or answer.status in (204, 304)
            match response:
                case LoopStreamingResponse() if bodiless:
                    pass
                case AsyncResponse():
                    answer.on_loop = response
                case HttpResponse():
                    if not bodiless:
                        answer.body = response.content
                    if answer.status not in (204, 304) and "Content-Length" not in response.headers:
                        answer.headers.append((b"content-length", b"%d" % len(response.content)))
                case _ if bodiless:
                    pass
                case FileResponse() if response.file_to_stream is not None:
                    answer.body = response.file_to_stream.read(FILE_BLOCK)
                    if len(answer.body) == FILE_BLOCK:
                        answer.rest = response
                case _:
                    assert isinstance(response, StreamingHttpResponse)
                    answer.rest = response
            return answer
        finally:
            if answer.rest is None:
                response.close()

    async def _finish_on_loop(
        self, answer: Answer, response: AsyncResponse, receive: Receive, send: Send, request_id: str
    ) -> int:
        """Returns the status."""
        if isinstance(response, DeferredResponse):
            return await send_deferred(
                response.resolve, headers=answer.headers, receive=receive, send=send, request_id=request_id
            )
        assert isinstance(response, LoopStreamingResponse)
        task = asyncio.current_task()
        assert task is not None
        self._streams.add(task)
        try:
            await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
            await response.stream(receive, send)
        except asyncio.CancelledError:
            await send({"type": "http.response.body", "body": b""})
        finally:
            self._streams.discard(task)
        return answer.status

    async def _send_rest(
        self, sender: StreamSender, answer: Answer, response: StreamingHttpResponse, request_id: str, group: Hashable
    ) -> None:
        """Each piece is a short job of its own, on whichever thread is idle: a producer must keep nothing that belongs
        to a thread, such as a database cursor, from one piece to the next."""
        next_piece: Callable[[], bytes]
        if isinstance(response, FileResponse) and response.file_to_stream is not None:
            threads, next_piece = self._threads, partial(response.file_to_stream.read, FILE_BLOCK)
        else:
            threads, next_piece = self._producers, partial(_next_piece, filter(None, response))
        start = {"type": "http.response.start", "status": answer.status, "headers": answer.headers}
        piece = answer.body
        try:
            connected = await sender.send(start)
            while connected and (piece := piece or await threads.submit(next_piece, group=group, always=True)):
                connected = await sender.send_piece(piece)
                piece = b""
            await sender.send({"type": "http.response.body", "body": b""})
        except TimeoutError:
            raise ClientGone from None
        except Exception:
            # Too late for another response: this one stays unfinished, so the server closes the connection.
            _log.exception("a stream failed", request_id=request_id)
        finally:
            sender.end()
            threads.submit(response.close, group=group, always=True)


def _next_piece(pieces: Iterator[bytes]) -> bytes:
    """Empty at the end."""
    drop_dead_connection()
    return next(pieces, b"")


def client_group(environ: Environ) -> Hashable:
    """Whose requests share threads: those of a space, if its token was valid lately, or of some networks. So many
    groups of networks and no more: each gets its turn."""
    scheme, _, token = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
    if scheme.lower() == "bearer":
        space_id = limits.space_of(hashlib.sha256(token.strip().encode("latin-1")).digest())
        if space_id is not None:
            return space_id
    return f"networks {hash(network_of(environ.get('REMOTE_ADDR'))) % NETWORK_GROUPS}"


def is_urgent(method: str, raw_path: bytes) -> bool:
    """What keeps leases alive, and the check that decides whether this server gets requests at all."""
    if method != "POST":
        return raw_path == b"/health"
    verbs = (b"/renew", b"/renew-all", b"/keepalive")
    return raw_path.startswith((b"/locks/", b"/sessions/", b"/elections/")) and raw_path.endswith(verbs)


def begins_stream(method: str, raw_path: bytes) -> bool:
    """What reads more than other requests do: the snapshot of a watch, and the history."""
    return method == "GET" and raw_path.endswith((b"/watch", b"/export"))


def _encode(headers: list[tuple[str, str]]) -> Headers:
    return [(name.lower().encode("latin-1"), value.strip().encode("latin-1")) for name, value in headers]
