"""Limits of elections, which need no token: requests and streams of each address, and of all together.

Kept in the process, as the limits of tokens are: with several server processes, each has its share.
"""

import threading
from collections import Counter

from django.conf import settings

from locks.api.errors import ApiError, Code
from locks.api.limits import Buckets, reject
from locks.services.networks import network_of

MAX_STREAMS = 1_024
MAX_STREAMS_PER_CLIENT = 8
# How many addresses may use up their rate at once.
CLIENTS_AT_FULL_RATE = 10
STREAM_RETRY_MS = 15_000


class Admission:
    """A place among the open streams."""

    def __init__(self, limits: "ElectionLimits", client: str) -> None:
        self._limits = limits
        self._client: str | None = client

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            self._limits.leave(client)

    # A request that was answered without its stream, such as HEAD.
    __del__ = close


class ElectionLimits:
    def __init__(self, *, requests_per_minute: float, processes: int) -> None:
        rate = requests_per_minute / 60 / processes
        self._clients = Buckets(rate=rate, burst_seconds=60)
        self._all = Buckets(rate=rate * CLIENTS_AT_FULL_RATE, burst_seconds=60)
        self._max_streams = max(1, MAX_STREAMS // processes)
        self._lock = threading.Lock()
        self._streams: Counter[str] = Counter()

    def check_request(self, address: str | None) -> None:
        """For what can create a room or a lease. A leader that renews or resigns is never limited."""
        reject(self._clients.take(network_of(address)), "This address has made too many requests for elections.")
        reject(self._all.take("all"), "All addresses together have made too many requests for elections.")

    def admit_stream(self, address: str | None) -> Admission:
        client = network_of(address)
        with self._lock:
            if self._streams[client] < MAX_STREAMS_PER_CLIENT and self._streams.total() < self._max_streams:
                self._streams[client] += 1
                return Admission(self, client)
        raise ApiError(
            429,
            Code.RATE_LIMITED,
            "Too many streams of elections are open, of this address or in all. Close some, or poll the status.",
            retry_after_ms=STREAM_RETRY_MS,
        )

    def leave(self, client: str) -> None:
        with self._lock:
            self._streams[client] -= 1
            if not self._streams[client]:
                del self._streams[client]

    def reset(self) -> None:
        self._clients.clear()
        self._all.clear()


election_limits = ElectionLimits(requests_per_minute=settings.ELECTION_REQUESTS_PER_MINUTE, processes=settings.WORKERS)
