"""A client's connection: uvicorn's own, with bounds on what it waits for, and with a way around ASGI.

uvicorn waits for the end of a request's head for as long as the client likes, and keeps as much of it as comes. Here
somebody looks at every connection once a second, and what is wrong with HTTP itself is said in the contract's words.

An exchange is a request that is answered without an ASGI task. uvicorn's code takes it for one of its own cycles, so
that requests which were sent without waiting for an answer keep their order.
"""

import asyncio
import sys
import urllib.parse
from functools import partial
from typing import Any, Protocol

import structlog
from httptools import (
    HttpParserCallbackError,
    HttpParserInvalidURLError,
    HttpParserUpgrade,
    HttpRequestParser,
    parse_url,
)
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from locks.api.errors import ApiError, internal_error, invalid_input, new_request_id, overloaded
from octoadmin.serving.asgi_types import Application, Headers, Message, Receive, Scope, Send
from octoadmin.serving.known_heads import KnownHeads, Said
from octoadmin.serving.request_body import BODY_SECONDS
from octoadmin.serving.streamed_answer import STALL_SECONDS

# Live streams and waiting requests hold a connection each and little else, so there may be many.
MAX_CONNECTIONS = 10_000
MAX_HEAD = 64 * 1024
HEAD_SECONDS = 30.0
KEEP_ALIVE_SECONDS = 75.0
# While so many requests or fewer have come ahead of their turn, it goes on reading: only who reads sees a client leave.
MAX_AHEAD = 4
# Those of one packet are read together. Who sends more has to do without an answer to the rest.
MAX_IN_LINE = 1000

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
        self.keep_alive = connection.stays
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
    # What the lane has made of the last head that it took, if it is worth remembering.
    envelope: Any = None
    # Of uvicorn's own, the one that is being answered. The last one may still wait for its turn.
    running: RequestResponseCycle | None = None

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.lane: Lane | None = self.app_state.get("lane")
        # When that began which is still arriving, 0 if nothing is; the same for the pause after an answer.
        self.arriving_since = self.loop.time()
        self.quiet_since = 0.0
        self.is_reading_head = True
        # Whether there may be another request after this one.
        self.stays = True
        self.known_heads = KnownHeads()
        # Nothing that comes from now on is read.
        self.is_over = False
        # How much of the piece that has come was read when the parser took the rest for another protocol.
        self.read_up_to = 0
        # What has come of a head, or after the last of a body; and what of that came just now, as far as it is known.
        self.unread = 0
        self.piece = 0
        # What the client has not taken yet, and since when that has not become less.
        self.unsent = 0
        self.stuck_since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            self.refuse(overloaded())

    def connection_lost(self, exc: Exception | None) -> None:
        if self.exchange is not None:
            self.exchange.disconnected = True
        if isinstance(self.cycle, Exchange):
            self.cycle = None
        if self.running is not None:
            self._hang_up_on(self.running)
        self.pipeline.clear()
        super().connection_lost(exc)

    @staticmethod
    def _hang_up_on(cycle: RequestResponseCycle) -> None:
        """Whatever it says from now on, nobody hears."""
        cycle.disconnected = True
        cycle.message_event.set()

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
        self._look_at_what_is_left(now)

    def _look_at_what_is_left(self, now: float) -> None:
        """Who does not take what was asked for would keep it here for ever, also after the connection was closed."""
        unsent = self.transport.get_write_buffer_size()
        if unsent < self.unsent or not self.unsent:
            self.stuck_since = now
        elif now - self.stuck_since > STALL_SECONDS:
            self.transport.abort()
        self.unsent = unsent

    def _give_up_head(self) -> None:
        if self.unread:
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

    def refuse(self, refusal: ApiError) -> None:
        """The last that is said here; where answers are under way, those are the last."""
        if self.transport.is_closing() or self.is_over:
            return
        self.is_over = True
        if self._takes_the_place_of_an_answer():
            self._hang_up_on(self.cycle)
            self.cycle = None
        if self._ends_with_an_answer():
            return
        if self.cycle is None or self.cycle.response_complete:
            request_id = new_request_id()
            body = refusal.body(request_id=request_id)
            said = refusal.headers(request_id=request_id) | {"Content-Length": str(len(body)), "Connection": "close"}
            lines = lines_of([(name.lower().encode(), value.encode()) for name, value in said.items()])
            self.transport.write(b"%b%b\r\n%b" % (STATUS_LINE[refusal.status], lines, body))
        self.transport.close()

    def _takes_the_place_of_an_answer(self) -> bool:
        """If what is wrong is the rest of a request whose turn it is, and of whose answer nothing was said yet."""
        is_running = self.cycle is self.running and self.cycle is not None
        return self._is_reading_body() and is_running and not self.cycle.response_started

    def _is_reading_body(self) -> bool:
        return bool(self.arriving_since) and not self.is_reading_head

    def _ends_with_an_answer(self) -> bool:
        """If one is under way to a request that was read to its end."""
        if self._is_reading_body():
            if not self.pipeline:
                return False
            self.pipeline.popleft()
        last = self.pipeline[0][0] if self.pipeline else self.exchange or self.running
        if last is None or last.response_complete:
            return False
        last.keep_alive = False
        return True

    def _refuse_head(self) -> None:
        self.refuse(_head_too_large())

    # What uvicorn's connection calls.

    def data_received(self, data: bytes) -> None:
        if self.is_over:
            return
        begins = not self.arriving_since and self._is_free()
        if begins and (said := self.known_heads.find(data)) is not None and self._take(said):
            return
        self.piece = len(data)
        super().data_received(data)
        if begins and self.exchange is not None and not self.arriving_since:
            self.known_heads.remember(data, self.exchange.scope, body_length=len(self.exchange.body))
        while self.read_up_to and not self.is_over:
            data, self.read_up_to = self._without_upgrade() + data[self.read_up_to :], 0
            self.piece = len(data)
            super().data_received(data)
        if self.arriving_since:
            self.unread += self.piece
            if self.unread > MAX_HEAD:
                self._refuse_head()

    def _take(self, said: Said) -> bool:
        """What the parser would have led to. A head that ends its connection is never sent again."""
        assert self.lane is not None
        self.scope = said.scope  # type: ignore[assignment]
        self.scope["state"] = self.app_state.copy()
        exchange = self.lane.open(self, said.method, said.target)
        if exchange is None:
            return False
        self._unset_keepalive_if_required()
        self.quiet_since = 0.0
        self.exchange = self.cycle = exchange
        exchange.body = said.body
        exchange.arrived()
        return True

    def send_400_response(self, msg: str) -> None:
        """While the parser's error is being dealt with, which may be one of ours."""
        error = sys.exception()
        if isinstance(error, HttpParserCallbackError) and isinstance(error.__context__, ApiError):
            self.refuse(error.__context__)
        elif isinstance(error, HttpParserCallbackError) and not isinstance(error.__context__, _THEIR_FAULT):
            _log.exception("a connection failed")
            self.refuse(internal_error())
        else:
            self.refuse(invalid_input(400, "This is not HTTP/1.1 as it should be."))

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle is None or self.cycle.response_complete:
            self.quiet_since = self.loop.time()
        if len(self.pipeline) > MAX_AHEAD:
            self.flow.pause_reading()

    def _unsupported_upgrade_warning(self) -> None:
        """It is answered as if nobody had asked for an upgrade. The parser has passed over its body, so the head is
        read once more."""
        error = sys.exception()
        assert isinstance(error, HttpParserUpgrade)
        (self.read_up_to,) = error.args

    def _without_upgrade(self) -> bytes:
        """The head that was read, for a parser that knows nothing of it."""
        line = self.parser.get_method(), self.url, self.parser.get_http_version().encode()
        self.parser = HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        return b"%b %b HTTP/%b\r\n%b\r\n" % (*line, lines_of([each for each in self.headers if each[0] != b"upgrade"]))

    # What the parser calls.

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.arriving_since = self.loop.time()
        self.quiet_since = 0.0
        self.is_reading_head = True
        self.unread = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        """What comes after a body may not pass for a part of the head: a proxy has looked at that, and not at this."""
        if self.is_reading_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if self.unread + self.piece > MAX_HEAD and self._size_of_head() > MAX_HEAD:
            raise _head_too_large()
        if self.parser.should_upgrade():
            if self.parser.get_method() == b"CONNECT":
                raise invalid_input(405, "This is no proxy.")
            return
        self._begin()
        self.is_reading_head = False

    def _size_of_head(self) -> int:
        return len(self.url) + sum(len(b": \r\n") + len(name) + len(value) for name, value in self.headers)

    def _begin(self) -> None:
        if self.lane is not None and self._is_free() and self._is_simple():
            self.stays = self.parser.should_keep_alive()
            exchange = self.lane.open(self, self.parser.get_method().decode("ascii"), self.url)
            if exchange is not None:
                self.exchange = self.cycle = exchange
                return
        if not self.url.startswith(b"/") and (url := parse_url(self.url)).path is None:
            self.url = b"/" if url.query is None else b"/?" + url.query
        if len(self.pipeline) >= MAX_IN_LINE:
            raise invalid_input(400, f"Send at most {MAX_IN_LINE} requests ahead of an answer.")
        super().on_headers_complete()
        if 0 < len(self.pipeline) <= MAX_AHEAD:
            self.flow.resume_reading()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self.running = cycle
        if cycle.waiting_for_100_continue:
            app = partial(_answer_expectant, app, cycle)
        super()._start_asgi_task(cycle, app)

    def _is_free(self) -> bool:
        """All that was asked before is answered, and the client reads the answers."""
        return (self.cycle is None or self.cycle.response_complete) and not self.pipeline and not self.flow.write_paused

    def _is_simple(self) -> bool:
        """Nothing but a path, as most of HTTP/1.1 is written."""
        return (
            self.url.isascii()
            and b"?" not in self.url
            and b"#" not in self.url
            and not self.expect_100_continue
            and self.parser.get_http_version() == "1.1"
        )

    def on_body(self, body: bytes) -> None:
        self.unread = self.piece = 0
        if self.exchange is not None and self.cycle is self.exchange:
            self.exchange.body += body
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if self.is_reading_head:  # once more, without the upgrade
            return
        self.arriving_since = 0.0
        self.piece = 0
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
        self._start_asgi_task(cycle, application)


async def _answer_expectant(
    application: Application, cycle: RequestResponseCycle, scope: Scope, receive: Receive, send: Send
) -> None:
    """Who is answered without having been told to go on need not send the body: what comes next may be it, or not."""

    async def send_and_end(message: Message) -> None:
        if cycle.waiting_for_100_continue and cycle.more_body:
            cycle.keep_alive = False
        await send(message)

    await application(scope, receive, send_and_end)


def _head_too_large() -> ApiError:
    return invalid_input(431, f"Send at most {MAX_HEAD} bytes of headers.")


def lines_of(headers: Headers) -> bytes:
    return b"".join(b"%b: %b\r\n" % header for header in headers)
