"""Stands between a client and the server as a reverse proxy does, and fails in the ways in which proxies fail."""

import random
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

PAGE = b"<html><body><h1>Down for maintenance</h1></body></html>"
DRIP_SECONDS = 0.25

# Answers that the proxy makes up; the server does not see the request.
MADE_UP = {
    "maintenance": ("200 OK", "text/html", PAGE),
    "other_json": ("200 OK", "application/json", b'{"status": "ok"}'),
    "wrong_json": ("200 OK", "application/json", b"[1]"),
    "not_found": ("404 Not Found", "text/html", b"<html>no such backend</html>"),
    "bad_gateway": ("502 Bad Gateway", "text/html", b"<html>bad gateway</html>"),
    "redirect": ("302 Found\r\nLocation: https://login.example.com/", "text/html", b""),
}
# The server carries the request out, and its answer is damaged on the way.
DAMAGED = ("truncated", "cut_off", "drip", "lost")
FAULTS = (*MADE_UP, *DAMAGED, "reset")


class FaultProxy:
    """`fault` is what happens to every request, None for nothing; `faults` and `probability` choose at random."""

    def __init__(self, port: int) -> None:
        self._server_port = port
        self._sockets: list[socket.socket] = []
        self._once: str | None = None
        self._down = False
        self.fault: str | None = None
        self.faults: Sequence[str] = ()
        self.probability = 0.0
        self.random = random.Random()
        self.counts: Counter[str] = Counter()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.connections = 0
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def lose_answers(self) -> None:
        """Requests arrive and are carried out; their answers are lost."""
        self.fault = "lost"

    def lose_an_answer(self) -> None:
        """The next one, and no other."""
        self._once = "lost"

    def go_down(self) -> None:
        """Nothing gets through, in either direction."""
        self._down = True
        self.cut()

    def recover(self) -> None:
        self.fault, self._down, self.probability = None, False, 0.0

    def cut(self) -> None:
        """Ends all connections. New ones are accepted."""
        while self._sockets:
            each = self._sockets.pop()
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                inner, _ = self._listener.accept()
                self.connections += 1
                if self._down:
                    inner.close()
                    continue
                self._sockets.append(inner)
                threading.Thread(target=self._serve, args=(inner,), daemon=True).start()

    def _serve(self, inner: socket.socket) -> None:
        with suppress(OSError), inner:
            while request := _read_request(inner):
                if not self._answer(inner, request):
                    break
            with suppress(OSError):
                inner.shutdown(socket.SHUT_RDWR)

    def _choose(self) -> str | None:
        once, self._once = self._once, None
        fault = once or self.fault
        if fault is None and self.faults and self.random.random() < self.probability:
            fault = self.random.choice(self.faults)
        self.counts[fault or "passed on"] += 1
        return fault

    def _answer(self, inner: socket.socket, request: bytes) -> bool:
        """Whether the connection can be used again."""
        fault = self._choose()
        if fault == "reset":
            inner.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            inner.close()
            return False
        if fault in MADE_UP:
            status, content_type, body = MADE_UP[fault]
            head = f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
            inner.sendall(head.encode() + body)
            return True
        try:
            upstream = socket.create_connection(("127.0.0.1", self._server_port))
        except OSError:
            return False
        self._sockets.append(upstream)
        with upstream:
            head, rest = request.split(b"\r\n", 1)
            upstream.sendall(head + b"\r\nConnection: close\r\n" + rest)
            if fault is None:
                return _pass_on(upstream, inner)
            answer = b"".join(iter(lambda: upstream.recv(65536), b""))
        return _damage(fault, inner, answer)


def _read_request(source: socket.socket) -> bytes:
    """A request with its body, less the headers about the connection; empty at the end."""
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = source.recv(65536)
        if not chunk:
            return b""
        data += chunk
    head, body = data.split(b"\r\n\r\n", 1)
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
    length = next((int(line[15:]) for line in lines if line.lower().startswith(b"content-length:")), 0)
    while len(body) < length:
        body += source.recv(65536)
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def _without_close(answer: bytes) -> bytes:
    head, _, body = answer.partition(b"\r\n\r\n")
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def _pass_on(upstream: socket.socket, inner: socket.socket) -> bool:
    """As it comes, so that a stream is one."""
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = upstream.recv(65536)
        if not chunk:
            return False
        data += chunk
    inner.sendall(_without_close(data))
    while data := upstream.recv(65536):
        inner.sendall(data)
    return True


def _damage(fault: str, inner: socket.socket, answer: bytes) -> bool:
    head, _, body = answer.partition(b"\r\n\r\n")
    if fault == "truncated":
        # Half of the body, and the length says so.
        body = body[: len(body) // 2]
        inner.sendall(f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}".encode())
        inner.sendall(b"\r\n\r\n" + body)
        return True
    if fault == "cut_off":
        inner.sendall(head + b"\r\n\r\n" + body[: len(body) // 2])
    elif fault == "drip":
        for byte in answer:
            inner.sendall(bytes([byte]))
            time.sleep(DRIP_SECONDS)
    return False
