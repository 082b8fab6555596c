"""The thread that renews what a blocking client holds: one for each client, and only while it holds something."""

from __future__ import annotations

import threading
from collections.abc import Callable

from octo.http_blocking import perform
from octo.keeping import Book, keep
from octo.steps import Request, Response
from octo.tenure import Tenure


class Keeper:
    def __init__(self, send: Callable[[Request], Response]) -> None:
        self._send = send
        self._book = Book()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def add(self, tenure: Tenure) -> None:
        with self._changed:
            self._book.add(tenure)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="octo-keeper", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def discard(self, tenure: Tenure) -> None:
        with self._changed:
            self._book.discard(tenure)
            self._changed.notify_all()

    def stop(self) -> None:
        with self._changed:
            thread = self._thread
            self._book.clear()
            self._changed.notify_all()
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self) -> None:
        while True:
            perform(keep(self._book), self._send, self._pause)
            with self._changed:
                if self._book.is_empty():
                    self._thread = None
                    return

    def _pause(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait(max(0.0, seconds))
