"""One attempt: a request to exactly the address that was checked, with a deadline that the receiver cannot extend."""

import contextlib
import os
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from functools import lru_cache
from http.client import HTTPException
from typing import Any

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError

from locks.events.webhooks.ssrf import Address, Forbidden, Networks, Resolve, Unresolvable, choose, resolve
from locks.events.webhooks.urls import InvalidTarget, Target, parse_target

CONNECT_SECONDS = 3.0
# For the whole attempt, from the look-up of the name to the last byte that is read.
ATTEMPT_SECONDS = 10.0
# Only the status counts. No more of a response than this is read.
MAX_RESPONSE_BYTES = 16 * 1024


@dataclass(frozen=True, kw_only=True)
class AttemptResult:
    """The status of the response, or why there was none."""

    duration_ms: int
    status: int | None = None
    error: str | None = None

    @property
    def is_delivered(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


def send(
    url: str, *, body: bytes, headers: dict[str, str], allowed: Networks, resolver: Resolve = resolve
) -> AttemptResult:
    began = time.monotonic()
    status: int | None = None
    error: str | None = None
    try:
        target = parse_target(url, allowed=allowed)
        address = choose(_look_up(resolver, target), port=target.port, allowed=allowed)
        with _connection(target, address, deadline=began + ATTEMPT_SECONDS) as connection:
            status = _post(connection, target, body=body, headers=headers)
        if time.monotonic() - began >= ATTEMPT_SECONDS:
            # A response that was cut off inside its headers looks like a complete, short one.
            status, error = None, "The receiver was too slow."
        elif 300 <= status < 400:
            error = "The receiver answered with a redirect, which is not followed."
    except (InvalidTarget, Forbidden, Unresolvable) as refusal:
        error = str(refusal)
    except TimeoutError:
        error = "The receiver was too slow."
    except (OSError, HTTPError, HTTPException, ValueError) as failure:
        slow = time.monotonic() - began >= ATTEMPT_SECONDS
        error = "The receiver was too slow." if slow else _describe(failure)
    return AttemptResult(duration_ms=int((time.monotonic() - began) * 1000), status=status, error=error)


def _look_up(resolver: Resolve, target: Target) -> list[Address]:
    """On a thread of its own, because the system's resolver has no deadline. A look-up that takes longer continues
    there without effect; the resolver ends it within a minute, so at most a few for each delivery thread are left."""
    found: Future[list[Address]] = Future()

    def run() -> None:
        try:
            found.set_result(resolver(target.host, target.port))
        except Exception as error:
            found.set_exception(error)

    threading.Thread(target=run, name="dns", daemon=True).start()
    return found.result(ATTEMPT_SECONDS)


def _post(connection: HTTPConnection, target: Target, *, body: bytes, headers: dict[str, str]) -> int:
    connection.request(
        "POST",
        target.path,
        body=body,
        headers={"Host": target.host_header, "Accept-Encoding": "identity", "Connection": "close", **headers},
        preload_content=False,
        decode_content=False,
    )
    response = connection.getresponse()
    # Reading some of the body spares most receivers a connection reset while they still write. In single reads of the
    # socket: `read` of Python's library takes a chunk of the size -1 as all that ever comes.
    left = MAX_RESPONSE_BYTES
    while left > 0 and (piece := response.read1(left)):
        left -= len(piece)
    return response.status


class _ToAddress:
    """Connects to the address that was checked. Host header, TLS server name and certificate use the host name."""

    address: Address
    sockets: "list[socket.socket]"
    timeout: Any
    port: int

    def _new_conn(self) -> socket.socket:
        connected = socket.create_connection((str(self.address), self.port), CONNECT_SECONDS)
        connected.settimeout(ATTEMPT_SECONDS)
        # A second descriptor of the connection, to shut it down with: TLS detaches the first one.
        self.sockets.append(socket.socket(fileno=os.dup(connected.fileno())))
        return connected


class _Http(_ToAddress, HTTPConnection):
    pass


class _Https(_ToAddress, HTTPSConnection):
    pass


@contextlib.contextmanager
def _connection(target: Target, address: Address, *, deadline: float) -> Iterator[HTTPConnection]:
    """Shut down at the deadline: a timeout of each read alone would let a receiver send one byte at a time for ever."""
    connection: _Http | _Https
    if target.scheme == "https":
        connection = _Https(target.host, target.port, ssl_context=_tls())
    else:
        connection = _Http(target.host, target.port)
    connection.address, connection.sockets = address, []
    timer = threading.Timer(max(0.0, deadline - time.monotonic()), _shut_down, [connection.sockets])
    timer.daemon = True
    timer.start()
    try:
        yield connection
    finally:
        timer.cancel()
        connection.close()
        for handle in connection.sockets:
            handle.close()


def _shut_down(sockets: "list[socket.socket]") -> None:
    for handle in list(sockets):
        with contextlib.suppress(OSError):
            handle.shutdown(socket.SHUT_RDWR)


@lru_cache(maxsize=1)
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()


def _describe(error: Exception) -> str:
    """Without addresses and other details of our network."""
    cause: BaseException | None = error
    while cause is not None:
        match cause:
            case ssl.SSLCertVerificationError():
                return f"The receiver's certificate is not valid: {cause.verify_message}."
            case ssl.SSLError():
                return "The TLS handshake with the receiver failed."
            case ConnectionRefusedError():
                return "Connection refused: nothing listens at that port."
            case ConnectionError():
                return "The receiver closed the connection."
        cause = cause.__cause__ or cause.__context__
    return "The receiver sent no valid HTTP response."
