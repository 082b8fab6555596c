"""Timeline: the holds of many locks in a period, a lane for each lock."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Self

from django.http import QueryDict
from django.utils.timezone import localtime

from locks.dashboard.activity.queries import parse_time, time_text
from locks.dashboard.database import fetch
from locks.dashboard.durations import humanize
from locks.dashboard.filters import Filters
from locks.dashboard.lock.ownership_timeline import (
    ForcedEnd,
    Interval,
    Period,
    Segment,
    Share,
    forced_ends_of,
    intervals_of,
    segments_of,
    shares_of,
)
from locks.dashboard.lock.queries import Hold, holds_of_many
from locks.dashboard.now.queries import LockListFilters
from locks.events.history.filters import Filter
from locks.models import EventKind, Space
from locks.services.lock_row import LockRow

# The latest holds that ended, those that go on, and the locks with the most time among them are shown.
MAX_HOLDS = 2_000
MAX_CURRENT = 500
MAX_LANES = 40
MIN_LENGTH = timedelta(seconds=10)

SPANS: dict[str, timedelta] = {"1h": timedelta(hours=1), "24h": timedelta(hours=24), "7d": timedelta(days=7)}


@dataclass(frozen=True, kw_only=True)
class TimelineFilters(Filters):
    """`since` and `until` are in UTC, as a browser sends them; with neither, the period is the span until now."""

    CHOICES = {"span": SPANS}
    NARROWING = ("prefix", "owner", "since", "until")
    NAMES = {"prefix": True}

    prefix: str = ""
    owner: str = ""
    span: str = "24h"
    since: str = ""
    until: str = ""

    @classmethod
    def of(cls, query: QueryDict) -> Self:
        filters = super().of(query)
        return replace(filters, since=time_text(filters.since), until=time_text(filters.until))

    @property
    def has_range(self) -> bool:
        return bool(self.since or self.until)

    def period(self, now: datetime) -> Period:
        """Never empty, and never beyond now."""
        end = min(parse_time(self.until) or now, now)
        begin = parse_time(self.since) or end - SPANS[self.span]
        return Period(begin=min(begin, end - MIN_LENGTH), end=end)


@dataclass(frozen=True, kw_only=True)
class Lane:
    name: str
    segments: list[Segment]
    forced_ends: list[ForcedEnd]
    holds: int
    # Ended, but not released by the holder.
    failed: int
    time: str
    percent: float


@dataclass(frozen=True, kw_only=True)
class Timeline:
    lanes: list[Lane]
    # More locks were held than there are lanes.
    others: int
    owners: list[Share]
    labels: list[str]
    period: Period
    is_truncated: bool


def timeline(*, space: Space, filters: TimelineFilters, now: datetime) -> Timeline:
    period = filters.period(now)
    # A hold that began in the period may have ended after it, so a period in the past is read from its begin.
    is_past = period.end < now
    in_period = Filter(prefix=filters.prefix or None, owner=filters.owner or None, since=period.begin)
    ended = holds_of_many(space=space, filters=in_period, limit=MAX_HOLDS, from_oldest=is_past)
    has_all = len(ended) < MAX_HOLDS or (is_past and ended[0].ended_at > period.end)
    current = {lock.name: lock for lock in _current(space, filters)}
    by_name: dict[str, list[Hold]] = {name: [] for name in current}
    for hold in ended:
        by_name.setdefault(hold.lock_name, []).append(hold)
    intervals = {name: intervals_of(holds, current.get(name), period) for name, holds in by_name.items()}
    longest = sorted((name for name in intervals if intervals[name]), key=lambda name: -_seconds(intervals[name]))
    shown = sorted(longest[:MAX_LANES])
    owners = shares_of([interval for name in shown for interval in intervals[name]], period.length)
    colours = {share.owner: share.colour for share in owners}
    return Timeline(
        lanes=[_lane(name, by_name[name], intervals[name], colours, period) for name in shown],
        others=len(longest) - len(shown), owners=owners, period=period,
        labels=period.labels(last=f"{localtime(period.end):%d %b %H:%M}" if is_past else "now"),
        is_truncated=not has_all or len(current) >= MAX_CURRENT,
    )  # fmt: skip


def _current(space: Space, filters: TimelineFilters) -> list[LockRow]:
    parameters: dict[str, Any] = LockListFilters(prefix=filters.prefix, owner=filters.owner).sql_parameters(space)
    page = {**parameters, "sort": "oldest", "rows": MAX_CURRENT, "skipped": 0}
    return [lock for lock in fetch("now/lock_list", LockRow, page) if lock.owner]


def _lane(
    name: str, ended: Sequence[Hold], intervals: Sequence[Interval], colours: dict[str, int], period: Period
) -> Lane:
    seconds = _seconds(intervals)
    failures = (EventKind.EXPIRED, EventKind.FORCE_RELEASED)
    return Lane(
        name=name, segments=segments_of(intervals, colours, period), forced_ends=forced_ends_of(ended, period),
        holds=len(intervals),
        failed=sum(hold.end_kind in failures and period.begin < hold.ended_at <= period.end for hold in ended),
        time=humanize(seconds), percent=round(100 * seconds / period.length.total_seconds(), 1),
    )  # fmt: skip


def _seconds(intervals: Sequence[Interval]) -> float:
    return sum((interval.end - interval.begin).total_seconds() for interval in intervals)
