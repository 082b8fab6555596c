"""Contention: refused claims, the names waited for most, and percentiles of hold and wait times."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.utils.timezone import localtime

from locks.dashboard import charts
from locks.dashboard.database import fetch
from locks.dashboard.durations import humanize_ms
from locks.events.history.histogram import percentile
from locks.models import Measure, Space

MAX_NAMES = 10
PERCENTILES = (50, 90, 95, 99)


@dataclass(frozen=True, kw_only=True)
class Window:
    label: str
    span: timedelta
    step: timedelta
    # Of the times below the chart.
    time_format: str


WINDOWS: dict[str, Window] = {
    "1h": Window(label="hour", span=timedelta(hours=1), step=timedelta(minutes=1), time_format="%H:%M"),
    "24h": Window(label="24 hours", span=timedelta(hours=24), step=timedelta(minutes=30), time_format="%H:%M"),
    "7d": Window(label="7 days", span=timedelta(days=7), step=timedelta(hours=3), time_format="%a %d %b"),
}


@dataclass(frozen=True, kw_only=True)
class _Counts:
    at: datetime
    granted: int
    refused: int
    waited: int


@dataclass(frozen=True, kw_only=True)
class _Durations:
    at: datetime
    measure: str
    bucket: int
    count: int


@dataclass(frozen=True, kw_only=True)
class ContendedName:
    name: str
    refused: int
    waited: int
    waited_ms: int
    # At present.
    owner: str | None
    queue_length: int

    @property
    def average_wait(self) -> str:
        return humanize_ms(self.waited_ms / self.waited) if self.waited else ""


@dataclass(frozen=True, kw_only=True)
class Quantiles:
    """Of all holds or waits in the window, as text."""

    count: int
    values: dict[int, str]

    @property
    def p50(self) -> str:
        return self.values[50]

    @property
    def p95(self) -> str:
        return self.values[95]


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step of the charts, and one row of the data table."""

    at: datetime
    granted: int
    refused: int
    granted_bar: charts.Bar | None
    refused_bar: charts.Bar | None
    # p50 and p95.
    hold: tuple[float, float] | None
    hold_bar: charts.Bar | None
    wait: tuple[float, float] | None
    wait_bar: charts.Bar | None


@dataclass(frozen=True, kw_only=True)
class Contention:
    window: Window
    granted: int
    refused: int
    hold: Quantiles
    wait: Quantiles
    most_refused: list[ContendedName]
    most_waited: list[ContendedName]
    steps: list[Step]
    labels: list[str]
    claims_marks: list[charts.Mark]
    hold_marks: list[charts.Mark]
    wait_marks: list[charts.Mark]

    @property
    def refused_percent(self) -> float:
        """Of all claims that were answered."""
        return round(100 * self.refused / (self.granted + self.refused), 1) if self.refused else 0.0

    @property
    def has_data(self) -> bool:
        return bool(self.granted or self.refused or self.hold.count or self.wait.count)


def contended_names(*, space: Space, window: Window, limit: int) -> list[ContendedName]:
    """Those refused most and those waited for most, up to the limit of each."""
    parameters = {"space_id": space.pk, "span": window.span, "step": window.step, "rows": limit}
    return fetch("contention/names", ContendedName, parameters)


def contention(*, space: Space, window: Window) -> Contention:
    parameters: dict[str, Any] = {"space_id": space.pk, "span": window.span, "step": window.step}
    counts = fetch("contention/counts", _Counts, parameters)
    durations = fetch("contention/durations", _Durations, parameters)
    names = contended_names(space=space, window=window, limit=MAX_NAMES)
    hold, hold_spans = _percentiles(durations, Measure.HOLD, counts)
    wait, wait_spans = _percentiles(durations, Measure.WAIT, counts)
    hold_scale, wait_scale = charts.Scale.around(hold_spans), charts.Scale.around(wait_spans)
    top = charts.round_top(max((step.granted + step.refused for step in counts), default=0))
    stacks = charts.stacks([(step.granted, step.refused) for step in counts], top=top)
    hold_bars = charts.ranges(hold_spans, scale=hold_scale)
    wait_bars = charts.ranges(wait_spans, scale=wait_scale)
    return Contention(
        window=window,
        granted=sum(step.granted for step in counts),
        refused=sum(step.refused for step in counts),
        hold=hold,
        wait=wait,
        most_refused=sorted((name for name in names if name.refused), key=lambda name: -name.refused)[:MAX_NAMES],
        most_waited=sorted((name for name in names if name.waited), key=lambda name: -name.waited)[:MAX_NAMES],
        steps=[
            Step(
                at=step.at, granted=step.granted, refused=step.refused,
                granted_bar=stack.bars[0], refused_bar=stack.bars[1],
                hold=held, hold_bar=hold_bar, wait=waited, wait_bar=wait_bar,
            )
            for step, stack, held, hold_bar, waited, wait_bar in zip(
                counts, stacks, hold_spans, hold_bars, wait_spans, wait_bars, strict=True
            )
        ],
        labels=_labels([step.at for step in counts], window),
        claims_marks=[
            charts.Mark(label=f"{top * part // 2:,}", y=charts.HEIGHT * (1 - part / 2)) for part in range(3)
        ],
        hold_marks=charts.duration_marks(hold_scale),
        wait_marks=charts.duration_marks(wait_scale),
    )  # fmt: skip


def _percentiles(
    durations: list[_Durations], measure: Measure, counts: list[_Counts]
) -> tuple[Quantiles, list[tuple[float, float] | None]]:
    """Those of the whole window as text, and p50 and p95 of each step."""
    by_step: dict[datetime, dict[int, int]] = defaultdict(dict)
    window: dict[int, int] = defaultdict(int)
    for row in durations:
        if row.measure == measure:
            by_step[row.at][row.bucket] = row.count
            window[row.bucket] += row.count
    spans: list[tuple[float, float] | None] = []
    for step in counts:
        low, high = (percentile(by_step[step.at], share) for share in (0.5, 0.95))
        spans.append((low, high) if low is not None and high is not None else None)
    values = {number: percentile(window, number / 100) for number in PERCENTILES}
    texts = {number: "" if value is None else humanize_ms(value) for number, value in values.items()}
    return Quantiles(count=sum(window.values()), values=texts), spans


def _labels(times: list[datetime], window: Window) -> list[str]:
    """Seven times from the left edge to the right."""
    every = len(times) / 6
    return [localtime(times[int(number * every)]).strftime(window.time_format) for number in range(6)] + ["now"]
