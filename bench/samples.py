"""One short measurement of one contender."""

import math
import os
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Sample:
    """Latencies are those of one request over HTTP, and of a claim-release pair elsewhere."""

    pairs_per_second: float
    p50_ms: float
    p99_ms: float
    failed: int
    generator_cores: float


def percentiles(milliseconds: Sequence[float]) -> tuple[float, float]:
    """p50 and p99; NaN with fewer than two values."""
    if len(milliseconds) < 2:
        return math.nan, math.nan
    cuts = statistics.quantiles(milliseconds, n=100)
    return cuts[49], cuts[98]


def children_cpu_seconds() -> float:
    """CPU time of the child processes that have ended: before and after a load generator ran, its cost."""
    times = os.times()
    return times.children_user + times.children_system
