"""The ownership timeline: the holders of a lock over time, as the geometry of a chart."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from django.utils.timezone import localtime

from locks.dashboard.durations import humanize
from locks.dashboard.lock.queries import Hold
from locks.dashboard.untrusted_text import isolate, visible
from locks.models import EventKind
from locks.services.lock_row import LockRow

WIDTH = 1440
# Narrower segments would be invisible.
MIN_WIDTH = 2.0
MAX_HOLDS = 2_000
# The owners that held it longest have a colour each; all others share the last.
COLOURS = 6

Span = Literal["24h", "7d"]
SPANS: dict[str, timedelta] = {"24h": timedelta(hours=24), "7d": timedelta(days=7)}


@dataclass(frozen=True, kw_only=True)
class Segment:
    x: float
    width: float
    colour: int
    label: str

    @property
    def path(self) -> str:
        """A path is shorter than a rect, and there may be thousands."""
        return f"M{self.x} 0h{self.width}v44h-{self.width}z"


@dataclass(frozen=True, kw_only=True)
class ForcedEnd:
    x: float
    label: str


@dataclass(frozen=True, kw_only=True)
class Share:
    """The time an owner held it, for the table below the chart."""

    owner: str
    colour: int
    holds: int
    time: str
    percent: float


@dataclass(frozen=True, kw_only=True)
class OwnershipTimeline:
    segments: list[Segment]
    forced_ends: list[ForcedEnd]
    shares: list[Share]
    labels: list[str]
    # There were more holds than the chart shows; it has the latest ones.
    is_truncated: bool
    free_percent: float


@dataclass(frozen=True, kw_only=True)
class Period:
    begin: datetime
    end: datetime

    @property
    def length(self) -> timedelta:
        return self.end - self.begin

    def x(self, moment: datetime) -> float:
        return round((moment - self.begin) / self.length * WIDTH, 1)

    def labels(self, *, last: str) -> list[str]:
        """Seven times from the left edge to the right."""
        step = self.length / 6
        time_format = "%H:%M:%S" if step < timedelta(minutes=2) else "%H:%M" if step < timedelta(days=1) else "%d %b"
        return [localtime(self.begin + step * number).strftime(time_format) for number in range(6)] + [last]


@dataclass(frozen=True)
class Interval:
    owner: str
    begin: datetime
    end: datetime


def ownership_timeline(
    *, ended: Sequence[Hold], current: LockRow | None, now: datetime, span: str
) -> OwnershipTimeline:
    """`ended` are the holds that ended in the span, the latest first."""
    period = Period(begin=now - SPANS[span], end=now)
    intervals = intervals_of(ended, current, period)
    shares = shares_of(intervals, period.length)
    return OwnershipTimeline(
        segments=segments_of(intervals, {share.owner: share.colour for share in shares}, period),
        forced_ends=forced_ends_of(ended, period),
        shares=shares,
        labels=period.labels(last="now"),
        is_truncated=len(ended) >= MAX_HOLDS,
        free_percent=round(100 - sum(share.percent for share in shares), 1),
    )


def intervals_of(ended: Sequence[Hold], current: LockRow | None, period: Period) -> list[Interval]:
    """The holds of one lock within the period. `ended` has the latest first."""
    holds = [(hold.owner, hold.began_at, hold.ended_at) for hold in reversed(ended)]
    if current is not None and current.acquired_at is not None and current.effective_expires_at is not None:
        holds.append((current.owner or "", current.acquired_at, min(current.now, current.effective_expires_at)))
    return [
        Interval(owner, max(begin, period.begin), min(end, period.end))
        for owner, begin, end in holds
        if end > period.begin and begin < period.end
    ]


def segments_of(intervals: Sequence[Interval], colours: Mapping[str, int], period: Period) -> list[Segment]:
    return [
        Segment(
            x=period.x(interval.begin),
            width=round(max(MIN_WIDTH, period.x(interval.end) - period.x(interval.begin)), 1),
            colour=colours[interval.owner],
            label=f"{isolate(interval.owner)}, {_time(interval.begin)} to {_time(interval.end)} "
            f"({humanize((interval.end - interval.begin).total_seconds())})",
        )
        for interval in intervals
    ]


def forced_ends_of(ended: Sequence[Hold], period: Period) -> list[ForcedEnd]:
    return [
        ForcedEnd(
            x=period.x(hold.ended_at),
            label=f"{_time(hold.ended_at)}: force-released from {isolate(hold.owner)} by {hold.actor_name}. "
            f"{visible(hold.reason)}",
        )
        for hold in ended
        if hold.end_kind == EventKind.FORCE_RELEASED and period.begin < hold.ended_at <= period.end
    ]


def shares_of(intervals: Sequence[Interval], span: timedelta) -> list[Share]:
    seconds: dict[str, float] = {}
    holds: dict[str, int] = {}
    for interval in intervals:
        seconds[interval.owner] = seconds.get(interval.owner, 0) + (interval.end - interval.begin).total_seconds()
        holds[interval.owner] = holds.get(interval.owner, 0) + 1
    ranked = sorted(seconds, key=lambda owner: -seconds[owner])
    return [
        Share(
            owner=owner,
            colour=min(rank, COLOURS),
            holds=holds[owner],
            time=humanize(seconds[owner]),
            percent=round(100 * seconds[owner] / span.total_seconds(), 1),
        )
        for rank, owner in enumerate(ranked, start=1)
    ]


def _time(moment: datetime) -> str:
    return localtime(moment).strftime("%d %b %H:%M:%S")
