"""Limits of elections, which need no token: requests and streams of each address, and of all together.

Kept in the process, as the limits of tokens are: with several server processes, on one host or on several, each has its
share.
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
        self._requests_per_second = requests_per_minute / 60
        self._clients = Buckets(rate=self._requests_per_second, burst_seconds=60)
        self._all = Buckets(rate=self._requests_per_second * CLIENTS_AT_FULL_RATE, burst_seconds=60)
        self._lock = threading.Lock()
        self._streams: Counter[str] = Counter()
        self.share(processes)

    def share(self, processes: int) -> None:
        """Among so many processes of all servers. The bucket of an address follows with its next request, and streams
        that are open stay open."""
        self._clients.rate = self._requests_per_second / processes
        self._all.rate = self._clients.rate * CLIENTS_AT_FULL_RATE
        self._max_streams = max(1, MAX_STREAMS // processes)
        self._max_streams_per_client = max(1, MAX_STREAMS_PER_CLIENT // processes)

    def check_request(self, address: str | None) -> None:
        """For what can create a room or a lease. A leader that renews or resigns is never limited."""
        for buckets, key, which in (
            (self._clients, network_of(address), "This address has"),
            (self._all, "all", "All addresses together have"),
        ):
            wait_ms = buckets.take(key)
            buckets.set_rate(key, buckets.rate)
            reject(wait_ms, f"{which} made too many requests for elections.")

    def admit_stream(self, address: str | None) -> Admission:
        client = network_of(address)
        with self._lock:
            if self._streams[client] < self._max_streams_per_client and self._streams.total() < self._max_streams:
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
