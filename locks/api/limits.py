"""Rate limits, kept in the process: a request that is turned away here never reaches the database.

A token bucket for each bearer token, and one for each address whose tokens are wrong. With several server
processes each has its share of the limit.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable

from django.conf import settings

from locks.api.errors import ApiError, Code

MAX_KEYS = 50_000


class Buckets:
    """Token buckets by key. Each refills at its rate and holds `burst_seconds` worth of it."""

    def __init__(self, *, rate: float, burst_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate = rate
        self._burst_seconds = burst_seconds
        self._clock = clock
        self._lock = threading.Lock()
        # key → (rate, what is left, when that was), the least recently used first
        self._buckets: OrderedDict[Hashable, tuple[float, float, float]] = OrderedDict()

    def _level(self, key: Hashable, now: float) -> tuple[float, float]:
        rate, left, since = self._buckets.get(key) or (self.rate, self.rate * self._burst_seconds, 0.0)
        return rate, min(rate * self._burst_seconds, left + (now - since) * rate)

    def wait_ms(self, key: Hashable) -> int:
        """How long until there is something to take; 0 if there is."""
        with self._lock:
            rate, left = self._level(key, self._clock())
            return 0 if left >= 1 else max(1, int((1 - left) / rate * 1000))

    def take(self, key: Hashable) -> int:
        """Takes one if there is one and returns 0; otherwise how many milliseconds to wait."""
        with self._lock:
            now = self._clock()
            rate, left = self._level(key, now)
            if left < 1:
                return max(1, int((1 - left) / rate * 1000))
            self._buckets[key] = (rate, left - 1, now)
            self._buckets.move_to_end(key)
            if len(self._buckets) > MAX_KEYS:
                self._buckets.popitem(last=False)
            return 0

    def give_back(self, key: Hashable) -> None:
        """What was taken for nothing."""
        with self._lock:
            known = self._buckets.get(key)
            if known is not None:
                self._buckets[key] = (known[0], known[1] + 1, known[2])

    def clear(self) -> None:
        with self._lock:
            self._buckets.clear()

    def set_rate(self, key: Hashable, rate: float) -> None:
        """From now on this key has a rate of its own."""
        known = self._buckets.get(key)
        if known is not None and known[0] == rate:
            return
        with self._lock:
            known = self._buckets.get(key)
            if known is not None and known[0] != rate:
                self._buckets[key] = (rate, min(known[1], rate * self._burst_seconds), known[2])


def _refuse(wait_ms: int, what: str) -> None:
    if wait_ms:
        raise ApiError(429, Code.RATE_LIMITED, f"{what} Wait before you try again.", retry_after_ms=wait_ms)


class Limits:
    """The limits of one server process."""

    def __init__(self, *, requests_per_second: float, failures_per_minute: float, processes: int) -> None:
        self._processes = processes
        self._default_rate = requests_per_second / processes
        self._requests = Buckets(rate=self._default_rate, burst_seconds=2)
        self._failures = Buckets(rate=failures_per_minute / 60 / processes, burst_seconds=60)
        self._good: OrderedDict[bytes, None] = OrderedDict()

    def check_token(self, digest: bytes) -> None:
        _refuse(self._requests.take(digest), "This token has used up its requests.")

    def refund(self, digest: bytes) -> None:
        """Somebody else will check the same request again."""
        self._requests.give_back(digest)

    def check_address(self, address: str | None, digest: bytes | None) -> None:
        """Where many wrong tokens came from, only tokens that were good before are let through: a worker must not pay
        for a stranger behind the same address."""
        if digest not in self._good:
            _refuse(self._failures.wait_ms(address), "Too many requests with a wrong token from this address.")

    def record_failure(self, address: str | None, digest: bytes | None) -> None:
        self._failures.take(address)
        self._good.pop(digest, None) if digest else None

    def set_rate(self, digest: bytes, requests_per_second: int | None) -> None:
        """The token is good, and its space may have a limit of its own: known once the database has answered."""
        self._good[digest] = None
        if len(self._good) > MAX_KEYS:
            self._good.popitem(last=False)
        rate = requests_per_second / self._processes if requests_per_second else self._default_rate
        self._requests.set_rate(digest, rate)

    def forget(self) -> None:
        """Every caller starts afresh."""
        self._requests.clear()
        self._failures.clear()
        self._good.clear()


limits = Limits(
    requests_per_second=settings.REQUESTS_PER_SECOND,
    failures_per_minute=settings.FAILED_AUTHENTICATIONS_PER_MINUTE,
    processes=settings.WORKERS,
)
