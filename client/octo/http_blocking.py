"""Requests over http.client: a small pool of kept connections that any thread may use, and that no fork shares."""

from __future__ import annotations

import http.client
import json
import os
import select
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from octo import clock
from octo.errors import Unreachable
from octo.steps import Call, Pause, Request, Response
from octo.user_agent import headers_for

if TYPE_CHECKING:
    import ssl

Result = TypeVar("Result")
CONNECT_SECONDS = 5.0
MOST_KEPT = 8


class BlockingTransport:
    def __init__(self, *, url: str, token: str, program: str | None = None) -> None:
        parts = urlsplit(url)
        self._secure = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port
        self._base = parts.path
        self._headers = headers_for(token=token, program=program)
        self._tls: ssl.SSLContext | None = None
        self.forget_connections()

    def forget_connections(self) -> None:
        """For the child of a fork, which must not talk over its parent's connections."""
        self._kept: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()
        self._pid = os.getpid()

    def send(self, request: Request) -> Response:
        # A kept connection may break when it is used, and nobody knows how far the request got. What must not be sent
        # twice goes over a new one.
        kept = self._take() if request.repeatable else None
        if kept is not None:
            try:
                return self._send_over(kept, request)
            except Unreachable as problem:
                if isinstance(problem.__cause__, TimeoutError):
                    raise
            try:
                return self._send_over(self._connect(request), request)._replace(repeated=True)
            except Unreachable as problem:
                problem.may_have_arrived = True
                raise
        return self._send_over(self._connect(request), request)

    def stream(self, request: Request) -> tuple[Response, Iterator[bytes]]:
        """The lines of an answer as they come, on a connection of its own. `timeout` is the longest silence."""
        connection = self._connect(request)
        sent_at = clock.now()
        try:
            answer = self._ask(connection, request)
            if answer.status != 200:
                response = self._response(answer, answer.read(), sent_at)
                connection.close()
                return response, iter(())
            return self._response(answer, b"", sent_at), _lines(connection, answer)
        except (OSError, http.client.HTTPException) as problem:
            connection.close()
            raise Unreachable(_why(problem)) from problem

    def close(self) -> None:
        with self._lock:
            kept, self._kept = self._kept, []
        for connection in kept:
            connection.close()

    def _send_over(self, connection: http.client.HTTPConnection, request: Request) -> Response:
        sent_at = clock.now()
        try:
            answer = self._ask(connection, request)
            content = answer.read()
        except (OSError, http.client.HTTPException) as problem:
            connection.close()
            raise Unreachable(_why(problem)) from problem
        except BaseException:
            # Somebody interrupted us: what is left of the answer must not be taken for the next one.
            connection.close()
            raise
        if answer.will_close:
            connection.close()
        else:
            self._keep(connection)
        return self._response(answer, content, sent_at)

    def _ask(self, connection: http.client.HTTPConnection, request: Request) -> http.client.HTTPResponse:
        assert connection.sock is not None
        connection.sock.settimeout(max(0.001, request.timeout))
        body = None
        headers = {**self._headers, **request.headers}
        if request.body is not None:
            body = json.dumps(request.body).encode()
            headers["Content-Type"] = "application/json"
        connection.request(request.method, self._base + request.path, body, headers)
        return connection.getresponse()

    @staticmethod
    def _response(answer: http.client.HTTPResponse, content: bytes, sent_at: float) -> Response:
        headers = {name.lower(): value for name, value in answer.getheaders()}
        return Response(answer.status, headers, content, sent_at)

    def _connect(self, request: Request) -> http.client.HTTPConnection:
        connection = self._new_connection(timeout=min(CONNECT_SECONDS, request.timeout))
        try:
            connection.connect()
        except (OSError, http.client.HTTPException) as problem:
            connection.close()
            raise Unreachable(_why(problem), may_have_arrived=False) from problem
        return connection

    def _new_connection(self, *, timeout: float) -> http.client.HTTPConnection:
        if not self._secure:
            return http.client.HTTPConnection(self._host, self._port, timeout=timeout)
        import ssl

        from octo.proxies import proxy_for

        if self._tls is None:
            self._tls = ssl.create_default_context()
        proxy = proxy_for(host=self._host, port=self._port)
        host, port = (proxy.host, proxy.port) if proxy else (self._host, self._port)
        connection = http.client.HTTPSConnection(host, port, timeout=timeout, context=self._tls)
        if proxy:
            connection.set_tunnel(self._host, self._port or 443, proxy.headers)
        return connection

    def _take(self) -> http.client.HTTPConnection | None:
        """One that the server has not closed meanwhile, as far as we can see."""
        while True:
            with self._lock:
                if not self._kept:
                    return None
                kept = self._kept.pop()
            if not _has_ended(kept):
                return kept
            kept.close()

    def _keep(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if len(self._kept) < MOST_KEPT and self._pid == os.getpid():
                self._kept.append(connection)
                return
        connection.close()


def _has_ended(connection: http.client.HTTPConnection) -> bool:
    """Nothing is expected between two requests: whatever has come is the end, or spoils the next answer."""
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return bool(poll.poll(0))


def _lines(connection: http.client.HTTPConnection, answer: http.client.HTTPResponse) -> Iterator[bytes]:
    try:
        while line := answer.readline(1_000_000):
            yield line
    except (OSError, http.client.HTTPException, ValueError) as problem:
        raise Unreachable(_why(problem)) from problem
    finally:
        answer.close()
        connection.close()


def _why(problem: BaseException) -> str:
    if isinstance(problem, TimeoutError):
        return "The server took too long to answer."
    return f"The server cannot be reached: {getattr(problem, 'strerror', None) or problem or type(problem).__name__}."


def perform(
    call: Call[Result],
    send: Callable[[Request], Response],
    pause: Callable[[float], object] = time.sleep,
) -> Result:
    """Drives a call to its end on this thread."""
    try:
        step = next(call)
        while True:
            if isinstance(step, Pause):
                pause(step.seconds)
                step = call.send(None)
                continue
            try:
                response = send(step)
            except Unreachable as problem:
                step = call.throw(problem)
            else:
                step = call.send(response)
    except StopIteration as end:
        result: Result = end.value
        return result
    finally:
        call.close()
