"""Django on long-lived threads behind ASGI: all that is not asynchronous by nature is answered here.

Django's own ASGI handler starts a thread for each request of a sync view, and each thread would connect to
the database anew. Here a fixed set of threads keep their connections and with them their prepared statements.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog
from django.http import FileResponse, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase

from locks.api.errors import ApiError, internal_error, new_request_id, overloaded
from locks.async_responses import DeferredResponse, GoOn, Later, LoopStreamingResponse
from octoadmin.probes.metrics import count_request, requests_in_flight, requests_waiting
from octoadmin.serving.asgi_types import Headers, Receive, Scope, Send
from octoadmin.serving.connection_checks import drop_dead_connection
from octoadmin.serving.later import answer_later
from octoadmin.serving.proxies import Networks
from octoadmin.serving.request_body import BodyBudget, ClientGone, read_body
from octoadmin.serving.streamed_answer import Stalled, StreamedAnswer
from octoadmin.serving.threads import Overloaded, Threads
from octoadmin.serving.wsgi_environ import Environ, attach_body, environ_of

MAX_WAITING = 1000
STOP_SECONDS = 3.0
FILE_BLOCK = 64 * 1024
CLIENT_GONE = 499

# Django's WSGIHandler, or what stands in for it.
Handler = Callable[[Environ, Any], HttpResponseBase]

_log = structlog.stdlib.get_logger(__name__)
_in_flight = requests_in_flight.labels("sync")


@dataclass(slots=True)
class Answer:
    status: int
    headers: Headers
    body: bytes
    # A file that goes on after `body`. Its reader may be slow, so it must not hold a thread meanwhile.
    rest: FileResponse | None = None
    # What sends the body on the event loop, when the thread has done its part.
    go_on: GoOn | None = None
    # What decides on the event loop about status and body, when the turn of a waiting request has come.
    later: Later | None = None


class SyncLane:
    """An ASGI application. Its numbers change on the event loop only."""

    def __init__(
        self, handler: Handler, *, threads: int, trusted_proxies: Networks, most_waiting: int = MAX_WAITING
    ) -> None:
        self._handler = handler
        self._trusted_proxies = trusted_proxies
        self._bodies = BodyBudget()
        self._threads = Threads(count=threads, most_waiting=most_waiting, name="sync-lane")

    def start(self) -> None:
        self._threads.start()

    def stop(self) -> None:
        self._threads.stop(seconds=STOP_SECONDS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        arrived = time.perf_counter()
        request_id = new_request_id()
        status = 500
        handed_over: Answer | None = None
        _in_flight.inc()
        try:
            status, handed_over = await self._respond(scope, receive, send, request_id)
        except ClientGone:
            status = CLIENT_GONE
        except ApiError as refusal:
            status = refusal.status
            await _send_whole(send, _refused(refusal, request_id))
        finally:
            _in_flight.dec()
            requests_waiting.set(self._threads.waiting)
            count_request(lane="sync", method=scope["method"], status=status, seconds=time.perf_counter() - arrived)
        if handed_over is not None and handed_over.go_on is not None:
            await send({"type": "http.response.start", "status": handed_over.status, "headers": handed_over.headers})
            await handed_over.go_on(receive, send)
        elif handed_over is not None and handed_over.later is not None:
            await answer_later(
                handed_over.later, headers=handed_over.headers, receive=receive, send=send, request_id=request_id
            )

    async def _respond(self, scope: Scope, receive: Receive, send: Send, request_id: str) -> tuple[int, Answer | None]:
        """Its status, and the answer itself if it is to go on on the event loop."""
        environ = environ_of(scope, request_id=request_id, trusted_proxies=self._trusted_proxies)
        body = await read_body(scope, environ, receive, self._bodies)
        attach_body(environ, body)
        stream = StreamedAnswer(receive, send)
        try:
            answer = await self._answer(environ, stream, request_id)
            if answer is None:
                return stream.status or 500, None
            if answer.go_on is not None or answer.later is not None:
                return answer.status, answer
            if answer.rest is None:
                await _send_whole(send, answer)
            else:
                await self._send_file(stream, answer, answer.rest)
            return answer.status, None
        finally:
            stream.end()
            self._bodies.give_back(len(body))

    async def _answer(self, environ: Environ, stream: StreamedAnswer, request_id: str) -> Answer | None:
        try:
            job = self._threads.submit(partial(self._handle, environ, stream))
            requests_waiting.set(self._threads.waiting)
            return await job
        except Overloaded:
            raise overloaded() from None
        except Stalled:
            raise ClientGone from None
        except Exception:
            _log.exception("a request failed outside of Django's own error handling", request_id=request_id)
            if stream.status is not None:
                # Too late for another answer. Left unfinished, the server breaks it off: the client can tell.
                return None
            raise internal_error() from None

    def _handle(self, environ: Environ, stream: StreamedAnswer) -> Answer | None:
        """On a thread. Returns the answer, or None if it was streamed already."""
        drop_dead_connection()
        status_line = "500"
        headers: list[tuple[str, str]] = []

        def start_response(line: str, fields: list[tuple[str, str]], _exc_info: Any = None) -> None:
            nonlocal status_line, headers
            status_line, headers = line, fields

        response = self._handler(environ, start_response)
        rest: FileResponse | None = None
        try:
            answer = Answer(status=int(status_line[:3]), headers=_encoded(headers), body=b"")
            bodiless = environ["REQUEST_METHOD"] == "HEAD" or answer.status in (204, 304)
            if isinstance(response, LoopStreamingResponse):
                answer.go_on = None if bodiless else response.go_on
            elif isinstance(response, DeferredResponse):
                answer.later = response.later
            elif isinstance(response, HttpResponse):
                if not bodiless:
                    answer.body = response.content
                if answer.status not in (204, 304) and "Content-Length" not in response.headers:
                    answer.headers.append((b"content-length", str(len(response.content)).encode()))
            elif bodiless:
                return answer
            elif isinstance(response, FileResponse) and response.file_to_stream is not None:
                answer.body = response.file_to_stream.read(FILE_BLOCK)
                if len(answer.body) == FILE_BLOCK:
                    rest = answer.rest = response
            else:
                assert isinstance(response, StreamingHttpResponse)
                stream.run(answer.status, answer.headers, response)
                return None
            return answer
        finally:
            if rest is None:
                response.close()

    async def _send_file(self, stream: StreamedAnswer, answer: Answer, response: FileResponse) -> None:
        """A file, unlike a cursor, belongs to no thread: whichever is idle reads the next block."""
        assert response.file_to_stream is not None
        read_block = partial(response.file_to_stream.read, FILE_BLOCK)
        start = {"type": "http.response.start", "status": answer.status, "headers": answer.headers}
        block = answer.body
        try:
            stays = await stream.pass_on(start)
            while stays and block:
                stays = await stream.pass_on({"type": "http.response.body", "body": block, "more_body": True})
                block = await self._threads.submit(read_block, always=True)
            await stream.pass_on({"type": "http.response.body", "body": b""})
        finally:
            self._threads.submit(response.close, always=True)


def _refused(refusal: ApiError, request_id: str) -> Answer:
    body = refusal.body(request_id=request_id)
    headers = _encoded([*refusal.headers(request_id=request_id).items(), ("content-length", str(len(body)))])
    return Answer(status=refusal.status, headers=headers, body=body)


def _encoded(headers: list[tuple[str, str]]) -> Headers:
    return [(name.lower().encode("latin-1"), value.strip().encode("latin-1")) for name, value in headers]


async def _send_whole(send: Send, answer: Answer) -> None:
    await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
    await send({"type": "http.response.body", "body": answer.body})
