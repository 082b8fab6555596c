"""A stand-in for what people have deliveries sent to, on loopback: well behaved or not, as the path says."""

import contextlib
import hashlib
import hmac
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Received:
    path: str
    headers: dict[str, str]
    body: bytes
    # The address that it was sent to.
    arrived_at: str = ""

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def is_signed_with(self, secret: str) -> bool:
        """As docs/webhooks.md describes the check."""
        time, *signatures = self.headers["X-Octo-Signature"].split(",")
        signed = f"{time.removeprefix('t=')}.".encode() + self.body
        expected = "v1=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
        return time == f"t={self.headers['X-OctoStore-Timestamp']}" and expected in signatures

    def is_signed_as_by_octostore(self, secret: str, header: str = "X-OctoStore-Signature") -> bool:
        expected = "sha256=" + hmac.new(secret.encode(), self.body, hashlib.sha256).hexdigest()
        return hmac.compare_digest(expected, self.headers.get(header, ""))


@dataclass
class Receiver:
    port: int
    received: list[Received] = field(default_factory=list)
    # The answer of /configured.
    status: int = 200
    ended: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def at(self, path: str) -> list[Received]:
        with self.lock:
            return [one for one in self.received if one.path == path]


class _Handler(BaseHTTPRequestHandler):
    receiver: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with self.receiver.lock:
            self.receiver.received.append(
                Received(self.path, dict(self.headers.items()), body, self.connection.getsockname()[0])
            )
        with contextlib.suppress(OSError):
            self._behave()

    def _behave(self) -> None:
        match self.path:
            case "/hangs":
                self.receiver.ended.wait(60)
            case "/drips":
                self.wfile.write(b"HTTP/1.1 200 OK\r\n")
                for number in range(600):
                    self.wfile.write(f"X-{number}: 1\r\n".encode())
                    if self.receiver.ended.wait(0.1):
                        return
            case "/redirects":
                self._answer(302, {"Location": f"{self.receiver.url}/well"})
            case "/pours":
                self.send_response(200)
                self.send_header("Content-Length", str(100 * 1024 * 1024))
                self.end_headers()
                for _ in range(100):
                    self.wfile.write(b"x" * 1024 * 1024)
            case "/pours-a-chunk":
                self.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n")
                for _ in range(100):
                    self.wfile.write(b"x" * 1024 * 1024)
            case "/continues":
                while not self.receiver.ended.is_set():
                    self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)
            case "/trails":
                self.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n")
                while not self.receiver.ended.is_set():
                    self.wfile.write(b"X: 1\r\n" * 100)
            case "/long-header":
                self.wfile.write(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 1024 * 1024)
            case "/fails":
                self._answer(500, {})
            case "/configured":
                self._answer(self.receiver.status, {})
            case "/slowly":
                time.sleep(0.2)
                self._answer(200, {})
            case _:
                self._answer(200, {})

    def _answer(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_arguments: Any) -> None:
        """Not into the test's output."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def handle_error(self, *_arguments: Any) -> None:
        """A client may disconnect at any time."""


@contextmanager
def receiving(host: str = "127.0.0.1", *, port: int = 0, tls: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    handler = type("Handler", (_Handler,), {})
    server = _Server((host, port), handler)
    if tls is not None:
        # The handshake is for the thread of the request, which may fail alone.
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    receiver = handler.receiver = Receiver(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.ended.set()
        server.shutdown()
        server.server_close()
        thread.join()
