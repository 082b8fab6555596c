"""Bounds the bytes that streams keep for clients that have not read them yet: for each team, and in all.

When a limit is reached, the stream that has waited longest for its client ends, so that streams that are read go on.
"""

import asyncio
import threading
import time
from collections import Counter

MAX_BYTES = 128 * 1024 * 1024
MAX_BYTES_PER_TEAM = 32 * 1024 * 1024
# A stream that was waiting for its client for less than this is not slow.
MIN_STALL_SECONDS = 1.0


class Account:
    """What one stream keeps. Used by one thread at a time."""

    def __init__(self, memory: "StreamMemory", team_id: int) -> None:
        self._memory = memory
        self.team_id = team_id
        self._held = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: asyncio.Timeout | None = None
        self.waiting_since: float | None = None

    def take(self, size: int) -> bool:
        """False if there is no room for so many bytes."""
        if not self._memory.take(self.team_id, size):
            return False
        self._held += size
        return True

    def give_back(self, size: int) -> None:
        self._held -= size
        self._memory.give_back(self.team_id, size)

    def close(self) -> None:
        self.give_back(self._held)

    # A request that was answered without its stream, such as HEAD.
    __del__ = close

    def start_waiting(self, timeout: asyncio.Timeout) -> None:
        """The stream waits for its client, until this timeout."""
        self._loop, self._waiting, self.waiting_since = asyncio.get_running_loop(), timeout, time.monotonic()
        self._memory.waiting.add(self)

    def stop_waiting(self) -> None:
        self._waiting, self.waiting_since = None, None
        self._memory.waiting.discard(self)

    def is_in(self, team_id: int | None) -> bool:
        return team_id is None or team_id == self.team_id

    def end_stream(self) -> None:
        """From any thread: the stream ends as if its client had stalled."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._time_out)

    def _time_out(self) -> None:
        if self._waiting is not None and self._loop is not None:
            self._waiting.reschedule(self._loop.time())


class StreamMemory:
    def __init__(self, *, max_bytes: int, max_bytes_per_team: int) -> None:
        self.max_bytes = max_bytes
        self.max_bytes_per_team = max_bytes_per_team
        self._lock = threading.Lock()
        self._held: Counter[int] = Counter()
        self._total = 0
        self.waiting: set[Account] = set()

    @property
    def total(self) -> int:
        return self._total

    def open(self, team_id: int) -> Account:
        return Account(self, team_id)

    def take(self, team_id: int, size: int) -> bool:
        with self._lock:
            team_is_full = self._held[team_id] + size > self.max_bytes_per_team
            if not team_is_full and self._total + size <= self.max_bytes:
                self._held[team_id] += size
                self._total += size
                return True
        self._end_slowest(team_id if team_is_full else None)
        return False

    def give_back(self, team_id: int, size: int) -> None:
        with self._lock:
            self._total -= size
            self._held[team_id] -= size
            if not self._held[team_id]:
                del self._held[team_id]

    def _end_slowest(self, team_id: int | None) -> None:
        latest = time.monotonic() - MIN_STALL_SECONDS
        slow = [
            (since, account)
            for account in list(self.waiting)
            if account.is_in(team_id) and (since := account.waiting_since) is not None and since <= latest
        ]
        if slow:
            min(slow, key=lambda pair: pair[0])[1].end_stream()


stream_memory = StreamMemory(max_bytes=MAX_BYTES, max_bytes_per_team=MAX_BYTES_PER_TEAM)
