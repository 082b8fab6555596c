"""What one side did in one short turn."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Slice:
    """The times are those of one request where the side speaks HTTP, and of a pair of claim and release elsewhere."""

    pairs_per_second: float
    p50_ms: float
    p99_ms: float
    failed: int
    generator_cores: float


def percentiles(milliseconds: Sequence[float]) -> tuple[float, float]:
    """The 50th and the 99th; unknown if there is next to nothing to tell them from."""
    if len(milliseconds) < 2:
        return math.nan, math.nan
    cuts = statistics.quantiles(milliseconds, n=100)
    return cuts[49], cuts[98]
