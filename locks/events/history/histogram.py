"""Distributions of durations as counts in buckets, which can be added up over any window.

Each bucket is about a fifth wider than the one before, from a millisecond on, so a percentile is right to within a
tenth. The database makes the same buckets in sql/rollup.sql.
"""

import math
from collections.abc import Mapping

BUCKETS_PER_DOUBLING = 4


def bucket_of(milliseconds: float) -> int:
    return math.floor(math.log2(max(1.0, milliseconds)) * BUCKETS_PER_DOUBLING)


def middle_of(bucket: int) -> float:
    """The milliseconds that stand for a bucket."""
    return float(2 ** ((bucket + 0.5) / BUCKETS_PER_DOUBLING))


def percentile(counts: Mapping[int, int], share: float) -> float | None:
    """The milliseconds that this share of the durations stays below; None when there are none."""
    wanted = share * sum(counts.values())
    seen = 0
    for bucket in sorted(counts):
        seen += counts[bucket]
        if seen >= wanted and seen:
            return middle_of(bucket)
    return None
