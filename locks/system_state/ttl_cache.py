"""A value that all threads of the process share until it is too old."""

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from django.db import Error, OperationalError

Value = TypeVar("Value")


# A failure is kept for less time, so that /health notices soon that the database is back.
FAILURE_SECONDS = 0.25


class TTLCache(Generic[Value]):
    """A failure is shared too: when the database is gone, one thread finds that out, and the others do not wait for it
    one after the other."""

    def __init__(self, fetch: Callable[[], Value], *, seconds: float) -> None:
        self._fetch = fetch
        self._seconds = seconds
        self._lock = threading.Lock()
        self._value: Value | None = None
        self._failure: str | None = None
        self._fetched_at = float("-inf")

    def __call__(self) -> tuple[Value, float]:
        """The value and how many seconds old it is. Raises OperationalError."""
        with self._lock:
            seconds = self._seconds if self._failure is None else min(self._seconds, FAILURE_SECONDS)
            if time.monotonic() - self._fetched_at >= seconds:
                self._value, self._failure = None, None
                try:
                    self._value = self._fetch()
                except Error as error:
                    self._failure = str(error)
                self._fetched_at = time.monotonic()
            value, failure, age = self._value, self._failure, time.monotonic() - self._fetched_at
        if value is None:
            raise OperationalError(failure)
        return value, age

    def clear(self) -> None:
        with self._lock:
            self._fetched_at = float("-inf")
