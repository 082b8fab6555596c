"""What the checkers report, and the times that they leave out."""

import bisect
import itertools
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from tests.torture.history import History

# Timestamps in answers are cut to milliseconds, and so are durations in the history.
ROUNDING = 0.002
# A waiter whose server process stalls is passed over, and heartbeats of a process resume some time after a fault.
ABSENT_SECONDS = 10.0


@dataclass(frozen=True)
class Violation:
    """`began` and `ended` are the smallest window that shows it."""

    rule: str
    name: str
    what: str
    began: float
    ended: float


@dataclass(frozen=True)
class Judgement:
    """`judged` is how many observations each rule was applied to: without any, no violation says nothing."""

    violations: list[Violation]
    judged: Counter[str]

    @property
    def unjudged(self) -> list[str]:
        return [rule for rule, count in self.judged.items() if not count]


def violation(rule: str, name: str, what: str, times: Iterable[float]) -> Violation:
    finite = [time for time in times if math.isfinite(time)] or [0.0]
    return Violation(rule, name, what, min(finite), max(finite))


class Quiet:
    """Away from faults, and from times in which a server process gave no sign of life."""

    def __init__(self, history: History, *, stalls: bool = True) -> None:
        spans = [(fault.began - 1, (fault.recovered or fault.ended) + ABSENT_SECONDS) for fault in history.faults]
        self._spans = sorted([*spans, *(history.stalls if stalls else ())])
        self._last_ends = list(itertools.accumulate((end for _, end in self._spans), max))

    def during(self, begin: float, end: float) -> bool:
        count = bisect.bisect_right(self._spans, (end, math.inf))
        return not count or self._last_ends[count - 1] < begin
