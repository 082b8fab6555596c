"""Rate limits, kept in the process: a request that is rejected here never reaches the database.

There is a token bucket for each bearer token, one for all tokens of a space, and one for each network that sends
invalid tokens. With several server processes, on one host or on several, each has its share of the limit: see `share`.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable

from django.conf import settings

from locks.api.errors import ApiError, Code
from locks.services.networks import network_of

MAX_KEYS = 50_000
# All tokens of a space together may make so many times the requests of one: a space can issue any number of tokens.
SPACE_FACTOR = 5
# A list counts as another request for each so many rows of its answer.
ROWS_PER_REQUEST = 50


class Buckets:
    """Token buckets by key. Each refills at its rate and holds `burst_seconds` worth of it."""

    def __init__(self, *, rate: float, burst_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate = rate
        self._burst_seconds = burst_seconds
        self._clock = clock
        self._lock = threading.Lock()
        # key → (rate, level, time of that level), the least recently used first
        self._buckets: OrderedDict[Hashable, tuple[float, float, float]] = OrderedDict()

    def _level(self, key: Hashable, now: float) -> tuple[float, float]:
        rate, level, since = self._buckets.get(key) or (self.rate, self.rate * self._burst_seconds, 0.0)
        return rate, min(rate * self._burst_seconds, level + (now - since) * rate)

    def wait_ms(self, key: Hashable) -> int:
        """Milliseconds until `take` succeeds; 0 if it would now."""
        with self._lock:
            return _wait_ms(*self._level(key, self._clock()))

    def take(self, key: Hashable) -> int:
        """Takes one and returns 0; or takes none and returns the milliseconds to wait."""
        with self._lock:
            now = self._clock()
            rate, level = self._level(key, now)
            if wait := _wait_ms(rate, level):
                return wait
            self._buckets[key] = (rate, level - 1, now)
            self._buckets.move_to_end(key)
            if len(self._buckets) > MAX_KEYS:
                self._buckets.popitem(last=False)
            return 0

    def charge(self, key: Hashable, amount: int) -> None:
        """Takes more after a `take`, below zero if need be: the next `take` waits for it. A negative amount is given
        back."""
        with self._lock:
            known = self._buckets.get(key)
            if known is not None:
                self._buckets[key] = (known[0], known[1] - amount, known[2])

    def clear(self) -> None:
        with self._lock:
            self._buckets.clear()

    def set_rate(self, key: Hashable, rate: float) -> None:
        known = self._buckets.get(key)
        if known is not None and known[0] == rate:
            return
        with self._lock:
            known = self._buckets.get(key)
            if known is not None and known[0] != rate:
                self._buckets[key] = (rate, min(known[1], rate * self._burst_seconds), known[2])


def _wait_ms(rate: float, level: float) -> int:
    return 0 if level >= 1 else max(1, int((1 - level) / rate * 1000))


def reject(wait_ms: int, reason: str) -> None:
    if wait_ms:
        raise ApiError(429, Code.RATE_LIMITED, f"{reason} Try again after Retry-After.", retry_after_ms=wait_ms)


class Limits:
    """The limits of one server process."""

    def __init__(
        self,
        *,
        requests_per_second: float,
        failures_per_minute: float,
        processes: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._requests_per_second = requests_per_second
        self._failures_per_second = failures_per_minute / 60
        self._processes = processes
        self._requests = Buckets(rate=requests_per_second / processes, burst_seconds=2, clock=clock)
        self._failures = Buckets(rate=self._failures_per_second / processes, burst_seconds=60, clock=clock)
        self._spaces = Buckets(rate=requests_per_second / processes * SPACE_FACTOR, burst_seconds=2, clock=clock)
        # Tokens that were valid lately, with their spaces.
        self._valid: OrderedDict[bytes, int] = OrderedDict()

    def share(self, processes: int) -> None:
        """Among so many processes of all servers. A token's bucket follows with its next request."""
        self._processes = processes
        self._requests.rate = self._requests_per_second / processes
        self._failures.rate = self._failures_per_second / processes
        self._spaces.rate = self._requests_per_second / processes * SPACE_FACTOR

    def check_token(self, digest: bytes) -> None:
        reject(self._requests.take(digest), "This token has exceeded its request rate.")
        space_id = self._valid.get(digest)
        if space_id is not None and (wait_ms := self._spaces.take(space_id)):
            self._requests.charge(digest, -1)
            reject(wait_ms, "The tokens of this space have exceeded their request rate.")

    def space_of(self, digest: bytes) -> int | None:
        """Of a token that was valid lately."""
        return self._valid.get(digest)

    def check_room(self, digest: bytes) -> None:
        """As `check_token`, but takes nothing."""
        reject(self._requests.wait_ms(digest), "This token has exceeded its request rate.")
        space_id = self._valid.get(digest)
        if space_id is not None:
            reject(self._spaces.wait_ms(space_id), "The tokens of this space have exceeded their request rate.")

    def refund(self, digest: bytes) -> None:
        """For a request that will be checked again."""
        self._charge(digest, -1)

    def charge_names(self, digest: bytes, names: int) -> None:
        """A request for many names counts as one for each of them."""
        self._charge(digest, max(0, names - 1))

    def charge_rows(self, digest: bytes, rows: int) -> None:
        self._charge(digest, rows // ROWS_PER_REQUEST)

    def _charge(self, digest: bytes, amount: int) -> None:
        self._requests.charge(digest, amount)
        space_id = self._valid.get(digest)
        if space_id is not None:
            self._spaces.charge(space_id, amount)

    def check_address(self, address: str | None, digest: bytes | None) -> None:
        """After many invalid tokens from an address, only tokens that were valid before pass: a worker must not suffer
        from another client behind the same address."""
        if digest not in self._valid:
            reject(
                self._failures.wait_ms(network_of(address)),
                "Too many requests with an invalid token from this address.",
            )

    def record_failure(self, address: str | None, digest: bytes | None) -> None:
        network = network_of(address)
        self._failures.take(network)
        self._failures.set_rate(network, self._failures.rate)
        if digest:
            self._valid.pop(digest, None)

    def set_rate(self, digest: bytes, *, space_id: int, requests_per_second: int | None) -> None:
        """Called when the database has authenticated the token: its space may have its own limit."""
        self._valid[digest] = space_id
        if len(self._valid) > MAX_KEYS:
            self._valid.popitem(last=False)
        rate = (requests_per_second or self._requests_per_second) / self._processes
        self._requests.set_rate(digest, rate)
        self._spaces.set_rate(space_id, rate * SPACE_FACTOR)

    def reset(self) -> None:
        self._spaces.clear()
        self._requests.clear()
        self._failures.clear()
        self._valid.clear()


limits = Limits(
    requests_per_second=settings.REQUESTS_PER_SECOND,
    failures_per_minute=settings.FAILED_AUTHENTICATIONS_PER_MINUTE,
    processes=settings.WORKERS,
)
