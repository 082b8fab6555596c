"""Hold times of a lock over time: p50, p95 and p99 of the holds that ended in each step, as the geometry of a chart."""

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from locks.dashboard import charts
from locks.dashboard.lock.ownership_timeline import SPANS
from locks.dashboard.lock.queries import Hold, percentile

STEPS: dict[str, timedelta] = {"24h": timedelta(hours=1), "7d": timedelta(hours=6)}


@dataclass(frozen=True, kw_only=True)
class Step:
    """Times in milliseconds; None without holds."""

    at: datetime
    count: int
    p50: int | None = None
    p95: int | None = None
    p99: int | None = None
    # From p50 to p95, and where p99 is.
    bar: charts.Bar | None = None
    p99_bar: charts.Bar | None = None


@dataclass(frozen=True, kw_only=True)
class HoldTimes:
    steps: list[Step]
    marks: list[charts.Mark]


def hold_times(*, ended: Sequence[Hold], now: datetime, span: str) -> HoldTimes | None:
    """None without holds. `ended` are the holds that ended in the span."""
    if not ended:
        return None
    step = STEPS[span]
    begin = now - SPANS[span]
    times: list[list[int]] = [[] for _ in range(SPANS[span] // step)]
    for hold in ended:
        number = min(len(times) - 1, max(0, (hold.ended_at - begin) // step))
        insort(times[number], hold.held_ms)
    points = [
        (percentile(held, 0.5), percentile(held, 0.95), percentile(held, 0.99)) if held else None for held in times
    ]
    scale = charts.Scale.around([(point[0], point[2]) if point else None for point in points])
    bars = charts.ranges([point[:2] if point else None for point in points], scale=scale)
    p99_bars = charts.ranges([(point[2], point[2]) if point else None for point in points], scale=scale)
    steps = [
        Step(at=begin + step * number, count=len(held), p50=point[0], p95=point[1], p99=point[2], bar=bar, p99_bar=p99)
        if point
        else Step(at=begin + step * number, count=0)
        for number, (held, point, bar, p99) in enumerate(zip(times, points, bars, p99_bars, strict=True))
    ]
    return HoldTimes(steps=steps, marks=charts.duration_marks(scale))
