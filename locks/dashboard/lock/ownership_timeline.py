"""The ownership timeline: the holders of a lock over time, as the geometry of a chart."""

from collections.abc import Sequence
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


@dataclass(frozen=True)
class _Interval:
    owner: str
    begin: datetime
    end: datetime


def ownership_timeline(
    *, ended: Sequence[Hold], current: LockRow | None, now: datetime, span: str
) -> OwnershipTimeline:
    """`ended` are the holds that ended in the span, the latest first."""
    begin = now - SPANS[span]
    intervals = [_Interval(hold.owner, max(hold.began_at, begin), hold.ended_at) for hold in reversed(ended)]
    if current is not None and current.acquired_at is not None and current.effective_expires_at is not None:
        intervals.append(
            _Interval(current.owner or "", max(current.acquired_at, begin), min(now, current.effective_expires_at))
        )
    intervals = [interval for interval in intervals if interval.end > begin]
    shares = _shares(intervals, SPANS[span])
    colours = {share.owner: share.colour for share in shares}
    scale = WIDTH / SPANS[span].total_seconds()
    return OwnershipTimeline(
        segments=[
            Segment(
                x=round((interval.begin - begin).total_seconds() * scale, 1),
                width=round(max(MIN_WIDTH, (interval.end - interval.begin).total_seconds() * scale), 1),
                colour=colours[interval.owner],
                label=f"{isolate(interval.owner)}, {_time(interval.begin)} to {_time(interval.end)} "
                f"({humanize((interval.end - interval.begin).total_seconds())})",
            )
            for interval in intervals
        ],
        forced_ends=[
            ForcedEnd(
                x=round((hold.ended_at - begin).total_seconds() * scale, 1),
                label=f"{_time(hold.ended_at)}: force-released from {isolate(hold.owner)} by {hold.actor_name}. "
                f"{visible(hold.reason)}",
            )
            for hold in ended
            if hold.end_kind == EventKind.FORCE_RELEASED
        ],
        shares=shares,
        labels=_labels(begin, span),
        is_truncated=len(ended) >= MAX_HOLDS,
        free_percent=round(100 - sum(share.percent for share in shares), 1),
    )


def _shares(intervals: Sequence[_Interval], span: timedelta) -> list[Share]:
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


def _labels(begin: datetime, span: str) -> list[str]:
    """Seven times from the left edge to the right."""
    step = SPANS[span] / 6
    time_format = "%H:%M" if span == "24h" else "%d %b"
    return [localtime(begin + step * number).strftime(time_format) for number in range(6)] + ["now"]


def _time(moment: datetime) -> str:
    return localtime(moment).strftime("%d %b %H:%M:%S")
