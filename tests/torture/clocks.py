"""The clock of the database in a recorded history, as seen by the clock of the clients."""

import bisect
import math

from tests.torture.history import ClockStep


class DatabaseTime:
    """In a history without steps both clocks are the same."""

    def __init__(self, steps: list[ClockStep]) -> None:
        # From each time on, the offset is between the two that follow it.
        self._spans = [(-math.inf, 0.0, 0.0)]
        offset = 0.0
        for step in sorted(steps, key=lambda step: step.began):
            self._spans.append((step.began, min(offset, step.offset), max(offset, step.offset)))
            self._spans.append((step.ended, step.offset, step.offset))
            offset = step.offset
        self._starts = [start for start, _, _ in self._spans]

    def _during(self, begin: float, end: float) -> list[tuple[float, float, float]]:
        first = bisect.bisect_right(self._starts, begin) - 1
        return self._spans[first : bisect.bisect_right(self._starts, end)]

    def is_steady(self, begin: float, end: float) -> bool:
        return len(self._during(begin, end)) == 1

    def highest(self, begin: float, end: float) -> float:
        """The highest time that the database may have read between two times of the clients."""
        if len(self._starts) == 1:
            return end
        spans = self._during(begin, end)
        if len(spans) == 1:
            return end + spans[0][2]
        ends = [start for start, _, _ in spans[1:]] + [end]
        return max(until + high for (_, _, high), until in zip(spans, ends, strict=True))

    def lowest(self, begin: float, end: float) -> float:
        if len(self._starts) == 1:
            return begin
        spans = self._during(begin, end)
        if len(spans) == 1:
            return begin + spans[0][1]
        return min(max(start, begin) + low for start, low, _ in spans)

    def reached(self, moment: float, since: float) -> float:
        """The first time of the clients, not before `since`, at which the database may have read `moment`."""
        if math.isinf(moment):
            return moment
        for index in range(max(bisect.bisect_right(self._starts, since) - 1, 0), len(self._spans)):
            start, _, high = self._spans[index]
            end = self._starts[index + 1] if index + 1 < len(self._spans) else math.inf
            first = max(moment - high, start, since)
            if first < end:
                return first
        return math.inf
