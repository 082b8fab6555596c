"""Stands between a client and the server, and can go quiet, lose answers, or break."""

import socket
import threading
from contextlib import suppress


class Wire:
    def __init__(self, port: int) -> None:
        self._server_port = port
        self._sockets: list[socket.socket] = []
        self._losing_answers = False
        self._losing_one = False
        self._down = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.connections = 0
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def lose_answers(self) -> None:
        """Requests arrive and are carried out; nobody hears of it."""
        self._losing_answers = True

    def lose_an_answer(self) -> None:
        """The next one, and no other."""
        self._losing_one = True

    def go_down(self) -> None:
        """Nothing gets through, in either direction."""
        self._down = True
        self.cut()

    def recover(self) -> None:
        self._losing_answers = self._down = False

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
                outer = self._upstream()
                if outer is None:
                    inner.close()
                    continue
                self._sockets += [inner, outer]
                threading.Thread(target=self._pass_on, args=(inner, outer, False), daemon=True).start()
                threading.Thread(target=self._pass_on, args=(outer, inner, True), daemon=True).start()

    def _upstream(self) -> socket.socket | None:
        if not self._down:
            with suppress(ConnectionRefusedError):
                return socket.create_connection(("127.0.0.1", self._server_port))
        return None

    def _is_lost(self) -> bool:
        lost, self._losing_one = self._losing_answers or self._losing_one, False
        return lost

    def _pass_on(self, source: socket.socket, target: socket.socket, answers: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if answers and self._is_lost():
                    break
                target.sendall(data)
        # Whoever waits for more is told that there is none.
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
