"""A proxy that fails in the ways in which networks and reverse proxies fail: on the byte level, and for HTTP."""

import random
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

PAGE = b"<html><body><h1>Down for maintenance</h1></body></html>"
DRIP_SECONDS = 0.25
HANG_UP_SECONDS = 0.05

# Answers that the proxy makes up; the server does not see the request.
MADE_UP = {
    "maintenance": ("200 OK", "text/html", PAGE),
    "other_json": ("200 OK", "application/json", b'{"status": "ok"}'),
    "wrong_json": ("200 OK", "application/json", b"[1]"),
    "not_found": ("404 Not Found", "text/html", b"<html>no such backend</html>"),
    "other_not_found": ("404 Not Found", "application/json", b'{"error": "not_found", "code": 404}'),
    "bad_gateway": ("502 Bad Gateway", "text/html", b"<html>bad gateway</html>"),
    "redirect": ("302 Found\r\nLocation: https://login.example.com/", "text/html", b""),
}
# The server carries the request out, and its answer is damaged on the way.
DAMAGED = ("truncated", "cut_off", "drip", "lost")
FAULTS = (*MADE_UP, *DAMAGED, "reset")

# A port on the loopback interface, or on a host, or a Unix socket.
Address = int | tuple[str, int] | Path


class TcpProxy:
    """Passes on bytes, until it is told not to."""

    def __init__(self, listen: Address, upstream: Address) -> None:
        self._upstream_address = upstream
        self._sockets: list[socket.socket] = []
        self._flows = threading.Event()
        self._flows.set()
        self._down = False
        self.connections = 0
        if isinstance(listen, Path):
            self._listener = socket.socket(socket.AF_UNIX)
            self._listener.bind(str(listen))
            self._listener.listen()
        else:
            self._listener = socket.create_server(("127.0.0.1", listen) if isinstance(listen, int) else listen)
            self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def freeze(self) -> None:
        """What a server that was stopped, or a network that drops everything, looks like."""
        self._flows.clear()

    def thaw(self) -> None:
        self._flows.set()

    def go_down(self) -> None:
        """Nothing gets through, in either direction."""
        self._down = True
        self.cut()

    def recover(self) -> None:
        self._down = False

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
        self.thaw()

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

    def _connect(self) -> socket.socket:
        if isinstance(self._upstream_address, Path):
            upstream = socket.socket(socket.AF_UNIX)
            upstream.connect(str(self._upstream_address))
        else:
            address = self._upstream_address
            upstream = socket.create_connection(("127.0.0.1", address) if isinstance(address, int) else address)
        self._sockets.append(upstream)
        return upstream

    def _serve(self, inner: socket.socket) -> None:
        try:
            outer = self._connect()
        except OSError:
            inner.close()
            return
        threading.Thread(target=self._pass_on, args=(outer, inner), daemon=True).start()
        self._pass_on(inner, outer)

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                self._flows.wait()
                target.sendall(data)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


class PostgresProxy(TcpProxy):
    """Listens on a Unix socket in `directory`, which is then a HOST for libpq. `params` are those of the server."""

    def __init__(self, directory: Path, *, params: dict[str, Any]) -> None:
        host, port = params["host"], int(params.get("port") or 5432)
        upstream = Path(host) / f".s.PGSQL.{port}" if host.startswith("/") else (host, port)
        super().__init__(directory / ".s.PGSQL.5432", upstream)


class FaultProxy(TcpProxy):
    """For HTTP. `fault` is what happens to every request, None for nothing; `faults` and `probability` choose at
    random."""

    def __init__(self, port: int) -> None:
        self._once: str | None = None
        self.fault: str | None = None
        self.faults: Sequence[str] = ()
        self.probability = 0.0
        self.random = random.Random()
        self.counts: Counter[str] = Counter()
        super().__init__(0, port)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def lose_answers(self) -> None:
        """Requests arrive and are carried out; their answers are lost."""
        self.fault = "lost"

    def lose_an_answer(self) -> None:
        """The next one, and no other."""
        self._once = "lost"

    def recover(self) -> None:
        super().recover()
        self.fault, self.probability = None, 0.0

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
            upstream = self._connect()
        except OSError:
            return False
        with upstream:
            head, rest = request.split(b"\r\n", 1)
            upstream.sendall(head + b"\r\nConnection: close\r\n" + rest)
            if fault is None:
                return _pass_answer_on(upstream, inner)
            if fault == "hung_up":
                # Often before the server has made the answer.
                time.sleep(self.random.random() * HANG_UP_SECONDS)
                return False
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


def _pass_answer_on(upstream: socket.socket, inner: socket.socket) -> bool:
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
