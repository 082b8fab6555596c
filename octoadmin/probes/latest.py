"""An answer that all threads of the process share for a while, however often it is asked for."""

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from django.db import Error, OperationalError

Answer = TypeVar("Answer")


class Latest(Generic[Answer]):
    """A failure is shared too: when the database is gone, one thread finds that out, and the others do not wait for it
    in turn."""

    def __init__(self, ask: Callable[[], Answer], *, seconds: float) -> None:
        self._ask = ask
        self._seconds = seconds
        self._lock = threading.Lock()
        self._answer: Answer | None = None
        self._failure: str | None = None
        self._asked_at = float("-inf")

    def __call__(self) -> tuple[Answer, float]:
        """The answer and how many seconds old it is. Raises OperationalError."""
        with self._lock:
            if time.monotonic() - self._asked_at >= self._seconds:
                self._answer, self._failure = None, None
                try:
                    self._answer = self._ask()
                except Error as error:
                    self._failure = str(error)
                self._asked_at = time.monotonic()
            answer, failure, age = self._answer, self._failure, time.monotonic() - self._asked_at
        if answer is None:
            raise OperationalError(failure)
        return answer, age

    def forget(self) -> None:
        with self._lock:
            self._asked_at = float("-inf")
