"""One attempt: a request to the very address that was checked, over within seconds whatever the receiver does."""

import contextlib
import os
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from http.client import HTTPException
from typing import Any

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError

from locks.events.webhooks.ssrf import Address, Forbidden, Networks, Resolve, Unresolvable, choose, resolve
from locks.events.webhooks.urls import BadTarget, Target, parse_target

CONNECT_SECONDS = 3.0
# For all of it, from the first packet to the last byte that is read.
ATTEMPT_SECONDS = 10.0
# The status is what counts. More of an answer than this is not even read.
MAX_BYTES = 16 * 1024


@dataclass(frozen=True, kw_only=True)
class AttemptResult:
    """The status that was answered, or why there was none."""

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
        address = choose(resolver(target.host, target.port), port=target.port, allowed=allowed)
        with _connection(target, address) as connection:
            status = _post(connection, target, body=body, headers=headers)
        if time.monotonic() - began >= ATTEMPT_SECONDS:
            # Cut off in the middle of its headers, an answer looks like a short one.
            status, error = None, "The receiver was too slow."
        elif 300 <= status < 400:
            error = "The receiver redirects, which is not followed."
    except (BadTarget, Forbidden, Unresolvable) as refusal:
        error = str(refusal)
    except TimeoutError:
        error = "The receiver was too slow."
    except (OSError, HTTPError, HTTPException, ValueError) as failure:
        slow = time.monotonic() - began >= ATTEMPT_SECONDS
        error = "The receiver was too slow." if slow else _in_words(failure)
    return AttemptResult(duration_ms=int((time.monotonic() - began) * 1000), status=status, error=error)


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
    # A little of what is said, so that a receiver that is still writing is not cut off without need.
    response.read(MAX_BYTES)
    return response.status


class _ToAddress:
    """Connects to an address that was checked, while everything else goes by the name: the Host header, what TLS asks
    for, and whom the certificate must be for."""

    address: Address
    sockets: "list[socket.socket]"
    timeout: Any
    port: int

    def _new_conn(self) -> socket.socket:
        connected = socket.create_connection((str(self.address), self.port), CONNECT_SECONDS)
        connected.settimeout(ATTEMPT_SECONDS)
        # A second handle on the same connection, which stays ours when TLS takes the first one over.
        self.sockets.append(socket.socket(fileno=os.dup(connected.fileno())))
        return connected


class _Http(_ToAddress, HTTPConnection):
    pass


class _Https(_ToAddress, HTTPSConnection):
    pass


@contextlib.contextmanager
def _connection(target: Target, address: Address) -> Iterator[HTTPConnection]:
    """Cut off when time is up: a time-out of each read alone would let a receiver go on for ever, byte by byte."""
    connection: _Http | _Https
    if target.scheme == "https":
        connection = _Https(target.host, target.port, ssl_context=_tls())
    else:
        connection = _Http(target.host, target.port)
    connection.address, connection.sockets = address, []
    guard = threading.Timer(ATTEMPT_SECONDS, _cut_off, [connection.sockets])
    guard.daemon = True
    guard.start()
    try:
        yield connection
    finally:
        guard.cancel()
        connection.close()
        for handle in connection.sockets:
            handle.close()


def _cut_off(sockets: "list[socket.socket]") -> None:
    for handle in list(sockets):
        with contextlib.suppress(OSError):
            handle.shutdown(socket.SHUT_RDWR)


@lru_cache(maxsize=1)
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()


def _in_words(error: Exception) -> str:
    """Without addresses and other particulars of our network."""
    cause: BaseException | None = error
    while cause is not None:
        match cause:
            case ssl.SSLCertVerificationError():
                return f"The receiver's certificate is not valid: {cause.verify_message}."
            case ssl.SSLError():
                return "The receiver does not speak TLS as it should."
            case ConnectionRefusedError():
                return "Nobody listens there."
            case ConnectionError():
                return "The receiver closed the connection."
        cause = cause.__cause__ or cause.__context__
    return "The receiver gave no answer that could be understood."
