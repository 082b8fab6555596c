"""The database's clock as this process knows it: it says when a request arrived, without a statement.

Requests that wait are served in the order in which they arrived. The statement that gives them their places may come
later, and those of one process may overtake each other: one waits for a row, another does not. So a request is stamped
when it arrives. Each answer of the database bounds the difference between its clock and the monotonic one of this
process: the clock was read after the statement was sent and before its rows came.

A stamp is never too early, and too late by no more than the fastest statement took to arrive. So if a request has its
place, later ones get later stamps at every server; and the stamps of a process rise, so its requests keep their order,
unless the clock is set back.
"""

import math
import time
from datetime import datetime

# By how much the two clocks may differ in speed: what NTP corrects at most.
MAX_DRIFT = 0.0005


class DatabaseClock:
    def __init__(self) -> None:
        # Of the clock of the database less that of this process, in seconds.
        self._min_difference = -math.inf
        self._max_difference = math.inf
        self._observed_at = 0.0
        self._last_stamp = 0

    def observe(self, now: datetime, *, sent_at: float, received_at: float) -> None:
        """`now` is what the database has read from its clock; the others are of the monotonic clock."""
        moment = now.timestamp()
        drift = MAX_DRIFT * max(received_at - self._observed_at, 0.0)
        low = max(moment - received_at, self._min_difference - drift)
        high = min(moment - sent_at, self._max_difference + drift)
        if low > high:
            # One of the clocks was set, or another server is the primary.
            low, high = moment - received_at, moment - sent_at
            # Otherwise the stamps of this process would stay behind those of the others until the old time is reached.
            self._last_stamp = 0
        self._min_difference, self._max_difference, self._observed_at = low, high, received_at

    def stamp(self) -> int | None:
        """This moment, in microseconds; each stamp is higher than the last. None before the first answer."""
        if self._max_difference == math.inf:
            return None
        self._last_stamp = max(round((time.monotonic() + self._max_difference) * 1_000_000), self._last_stamp + 1)
        return self._last_stamp


database_clock = DatabaseClock()
