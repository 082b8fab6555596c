"""A client's connection: uvicorn's own, with bounds on what it waits for, and with a way around ASGI.

uvicorn waits for the end of a request's head for as long as the client likes, and keeps as much of it as comes. Here
somebody looks at every connection once a second, and what is wrong with HTTP itself is said in the contract's words.

An exchange is a request that is answered without an ASGI task. uvicorn's code takes it for one of its own cycles, so
that requests which were sent without waiting for an answer keep their order.
"""

import asyncio
import sys
import urllib.parse
from typing import Any, Protocol

import structlog
from httptools import HttpParserCallbackError, HttpParserInvalidURLError
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from locks.api.errors import Refusal, internal_error, invalid_input, new_request_id, overloaded
from octoadmin.serving.asgi_types import Application, Headers, Scope
from octoadmin.serving.request_body import BODY_SECONDS

# Live streams and waiting requests hold a connection each and little else, so there may be many.
MOST_CONNECTIONS = 10_000
LARGEST_HEAD = 64 * 1024
HEAD_SECONDS = 30.0
KEEP_ALIVE_SECONDS = 75.0

# What uvicorn's own code raises about a request that cannot be read.
_THEIR_FAULT = (UnicodeDecodeError, HttpParserInvalidURLError)

_log = structlog.stdlib.get_logger(__name__)


class Lane(Protocol):
    def open(self, connection: "Connection", method: str, target: bytes) -> "Exchange | None":
        """Takes the request whose head has arrived, or leaves it to ASGI."""


class Exchange:
    """A request that is answered without ASGI, unless it finds out that it cannot be."""

    __slots__ = ("body", "connection", "disconnected", "keep_alive", "response_complete", "scope")

    def __init__(self, connection: "Connection", method: str, target: bytes) -> None:
        self.connection = connection
        self.scope: Scope = connection.scope  # type: ignore[assignment]
        self.scope["method"] = method
        self.scope["raw_path"] = target
        self.scope["query_string"] = b""
        self.body = b""
        # What uvicorn's connection asks of a cycle, and tells it.
        self.keep_alive: bool = connection.parser.should_keep_alive()
        self.response_complete = False
        self.disconnected = False

    def arrived(self) -> None:
        """The body is here, as long as it was announced."""
        raise NotImplementedError

    def late(self) -> None:
        """The body does not come."""
        raise NotImplementedError

    def answer(self, status: int, lines: bytes, body: bytes) -> None:
        """The lines are the headers' own, without the length."""
        self.response_complete = True
        if not self.disconnected:
            self.connection.send_answer(self, status, lines, body)

    def go_on(self, application: Application, *, with_body: bool = True) -> None:
        """From here on the application answers. It reads the same head, and the same body unless that was read."""
        if not self.disconnected:
            self.connection.go_on(self, application, with_body=with_body)


class Connection(HttpToolsProtocol):
    # The last request's: uvicorn's own, or an exchange.
    cycle: Any
    exchange: Exchange | None = None

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.lane: Lane | None = self.app_state.get("lane")
        # When that began which is still arriving, 0 if nothing is; the same for the pause after an answer.
        self.arriving_since = self.loop.time()
        self.quiet_since = 0.0
        self.is_reading_head = True
        self.head_size = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            self.refuse(overloaded())

    def connection_lost(self, exc: Exception | None) -> None:
        if self.exchange is not None:
            self.exchange.disconnected = True
        if isinstance(self.cycle, Exchange):
            self.cycle = None
        super().connection_lost(exc)

    def look(self, now: float) -> None:
        """Once a second: whether this has lasted too long."""
        if self.arriving_since:
            if self.is_reading_head:
                if now - self.arriving_since > HEAD_SECONDS:
                    self._give_up_head()
            elif now - self.arriving_since > BODY_SECONDS:
                self._give_up_body()
        elif self.quiet_since and now - self.quiet_since > KEEP_ALIVE_SECONDS:
            self.transport.close()

    def _give_up_head(self) -> None:
        if self.head_size:
            self.refuse(invalid_input(408, f"Send the whole head within {HEAD_SECONDS:g} seconds."))
        else:
            self.transport.close()

    def _give_up_body(self) -> None:
        if self.exchange is not None and self.cycle is self.exchange:
            self.exchange.keep_alive = False
            self.exchange.late()
        elif self.cycle is None or self.cycle.response_complete:
            # It was answered without its body, of which the rest never came.
            self.transport.close()

    def refuse(self, refusal: Refusal) -> None:
        """The last that is said here; nothing, if an answer is under way that it would get into."""
        if self.transport.is_closing():
            return
        if self.cycle is None or self.cycle.response_complete:
            request_id = new_request_id()
            body = refusal.body(request_id=request_id)
            said = refusal.headers(request_id=request_id) | {"Content-Length": str(len(body)), "Connection": "close"}
            lines = lines_of([(name.lower().encode(), value.encode()) for name, value in said.items()])
            self.transport.write(b"%b%b\r\n%b" % (STATUS_LINE[refusal.status], lines, body))
        self.transport.close()

    # What uvicorn's connection calls.

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.is_reading_head and self.arriving_since:
            self.head_size += len(data)
            if self.head_size > LARGEST_HEAD:
                self.refuse(invalid_input(431, f"Send at most {LARGEST_HEAD} bytes of headers."))

    def send_400_response(self, msg: str) -> None:
        """While the parser's error is being dealt with, which may be one of ours."""
        error = sys.exception()
        if isinstance(error, HttpParserCallbackError) and not isinstance(error.__context__, _THEIR_FAULT):
            _log.exception("a connection failed")
            self.refuse(internal_error())
        else:
            self.refuse(invalid_input(400, "This is not HTTP/1.1 as it should be."))

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle is None or self.cycle.response_complete:
            self.quiet_since = self.loop.time()

    def _unsupported_upgrade_warning(self) -> None:
        """It is answered as if nobody had asked for an upgrade."""

    # What the parser calls.

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.arriving_since = self.loop.time()
        self.quiet_since = 0.0
        self.is_reading_head = True
        self.head_size = 0

    def on_headers_complete(self) -> None:
        self.is_reading_head = False
        if self.lane is not None and (self.cycle is None or self.cycle.response_complete) and self._is_simple():
            exchange = self.lane.open(self, self.parser.get_method().decode("ascii"), self.url)
            if exchange is not None:
                self.exchange = self.cycle = exchange
                return
        super().on_headers_complete()

    def _is_simple(self) -> bool:
        """Nothing but a path, as most of HTTP/1.1 is written, from somebody who reads the answers."""
        return (
            not self.flow.write_paused
            and self.url.isascii()
            and b"?" not in self.url
            and b"#" not in self.url
            and not self.expect_100_continue
            and not self.parser.should_upgrade()
            and self.parser.get_http_version() == "1.1"
        )

    def on_body(self, body: bytes) -> None:
        if self.exchange is not None and self.cycle is self.exchange:
            self.exchange.body += body
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self.arriving_since = 0.0
        if self.exchange is not None and self.cycle is self.exchange:
            self.exchange.arrived()
        else:
            super().on_message_complete()

    # What an exchange calls.

    def send_answer(self, exchange: Exchange, status: int, lines: bytes, body: bytes) -> None:
        self.exchange = None
        if self.transport.is_closing():
            return
        stays = exchange.keep_alive
        self.transport.write(
            b"%b%b%bcontent-length: %d\r\n%b\r\n%b"
            % (
                STATUS_LINE[status],
                lines_of(self.server_state.default_headers),
                lines,
                len(body),
                b"" if stays else b"connection: close\r\n",
                body,
            )
        )
        if not stays:
            self.transport.close()
        elif self.pipeline:
            self.on_response_complete()
        else:
            self.server_state.total_requests += 1
            self.quiet_since = self.loop.time()

    def go_on(self, exchange: Exchange, application: Application, *, with_body: bool) -> None:
        self.exchange = None
        exchange.scope["path"] = urllib.parse.unquote(exchange.scope["raw_path"].decode("ascii"))
        arrival = asyncio.Event()
        cycle = RequestResponseCycle(
            scope=exchange.scope,  # type: ignore[arg-type]
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=self.access_log,
            default_headers=self.server_state.default_headers,
            message_event=arrival,
            expect_100_continue=False,
            keep_alive=exchange.keep_alive,
            on_response=self.on_response_complete,
        )
        cycle.more_body = False
        if with_body:
            cycle.body = bytearray(exchange.body)
            arrival.set()
        if self.cycle is exchange:
            self.cycle = cycle
        self._start_asgi_task(cycle, application)  # type: ignore[arg-type]


def lines_of(headers: Headers) -> bytes:
    return b"".join(b"%b: %b\r\n" % header for header in headers)
