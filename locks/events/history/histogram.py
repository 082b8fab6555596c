"""Histograms of durations: counts in buckets, which can be added up over any window.

Each bucket is about a fifth wider than the one before, from a millisecond on, so a percentile is right to within a
tenth. sql/rollup.sql computes the same buckets.
"""

import math
from collections.abc import Mapping

BUCKETS_PER_DOUBLING = 4


def bucket_of(milliseconds: float) -> int:
    return math.floor(math.log2(max(1.0, milliseconds)) * BUCKETS_PER_DOUBLING)


def midpoint(bucket: int) -> float:
    """In milliseconds."""
    return float(2 ** ((bucket + 0.5) / BUCKETS_PER_DOUBLING))


def percentile(counts: Mapping[int, int], share: float) -> float | None:
    """In milliseconds; None without any durations."""
    target = share * sum(counts.values())
    total = 0
    for bucket in sorted(counts):
        total += counts[bucket]
        if total >= target and total:
            return midpoint(bucket)
    return None
