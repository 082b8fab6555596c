"""Stands between a client and the test's PostgreSQL, and can stop passing anything on."""

import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any


class PostgresProxy:
    """Listens on a Unix socket in `directory`, which is then a HOST for libpq."""

    def __init__(self, directory: Path, *, params: dict[str, Any]) -> None:
        self.directory = directory
        self._params = params
        self._sockets: list[socket.socket] = []
        self._flows = threading.Event()
        self._flows.set()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(directory / ".s.PGSQL.5432"))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def freeze(self) -> None:
        """What a server that was stopped, or a network that drops everything, looks like."""
        self._flows.clear()

    def thaw(self) -> None:
        self._flows.set()

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
                outer = self._upstream()
                self._sockets += [inner, outer]
                for source, target in ((inner, outer), (outer, inner)):
                    threading.Thread(target=self._pass_on, args=(source, target), daemon=True).start()

    def _upstream(self) -> socket.socket:
        host, port = self._params["host"], int(self._params.get("port") or 5432)
        if not host.startswith("/"):
            return socket.create_connection((host, port))
        upstream = socket.socket(socket.AF_UNIX)
        upstream.connect(f"{host}/.s.PGSQL.{port}")
        return upstream

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                self._flows.wait()
                target.sendall(data)
