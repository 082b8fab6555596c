"""Who is in whose way: claims that were refused, names that are waited for, and how long holds and waits take."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from locks.dashboard import charts
from locks.dashboard.database import fetch
from locks.dashboard.durations import humanize_ms
from locks.events.history.histogram import percentile
from locks.models import Measure, Space

NAMES = 10
SHARES = (0.5, 0.9, 0.95, 0.99)


@dataclass(frozen=True, kw_only=True)
class Window:
    words: str
    span: timedelta
    step: timedelta
    # How a moment on the lower edge is written.
    shape: str


WINDOWS: dict[str, Window] = {
    "1h": Window(words="hour", span=timedelta(hours=1), step=timedelta(minutes=1), shape="%H:%M"),
    "24h": Window(words="24 hours", span=timedelta(hours=24), step=timedelta(minutes=30), shape="%H:%M"),
    "7d": Window(words="7 days", span=timedelta(days=7), step=timedelta(hours=3), shape="%a %d %b"),
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
    # Who has it now, and how many stand in line for it now.
    owner: str | None
    waiting: int

    @property
    def average_wait(self) -> str:
        return humanize_ms(self.waited_ms / self.waited) if self.waited else ""


@dataclass(frozen=True, kw_only=True)
class Quantiles:
    """Of all holds or waits in the window, in words."""

    count: int
    at: list[str]

    @property
    def median(self) -> str:
        return self.at[SHARES.index(0.5)]

    @property
    def high(self) -> str:
        return self.at[SHARES.index(0.95)]


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step of the pictures, and one row of the tables beneath."""

    at: datetime
    granted: int
    refused: int
    granted_bar: charts.Bar | None
    refused_bar: charts.Bar | None
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
        """Of all claims that were decided."""
        return round(100 * self.refused / (self.granted + self.refused), 1) if self.refused else 0.0

    @property
    def anything(self) -> bool:
        return bool(self.granted or self.refused or self.hold.count or self.wait.count)


def contention(*, space: Space, window: Window) -> Contention:
    asked: dict[str, Any] = {"space_id": space.pk, "span": window.span, "step": window.step}
    counts = fetch("contention/counts", _Counts, asked)
    durations = fetch("contention/durations", _Durations, asked)
    names = fetch("contention/names", ContendedName, {**asked, "rows": NAMES})
    hold, hold_spans = _spread(durations, Measure.HOLD, counts)
    wait, wait_spans = _spread(durations, Measure.WAIT, counts)
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
        most_refused=sorted((name for name in names if name.refused), key=lambda name: -name.refused)[:NAMES],
        most_waited=sorted((name for name in names if name.waited), key=lambda name: -name.waited)[:NAMES],
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
            charts.Mark(words=f"{top * part // 2:,}", y=charts.HEIGHT * (1 - part / 2)) for part in range(3)
        ],
        hold_marks=_marks(hold_scale),
        wait_marks=_marks(wait_scale),
    )  # fmt: skip


def _spread(
    durations: list[_Durations], measure: Measure, counts: list[_Counts]
) -> tuple[Quantiles, list[tuple[float, float] | None]]:
    """All of the window in words, and the median and the 95th percentile of each step."""
    by_step: dict[datetime, dict[int, int]] = defaultdict(dict)
    together: dict[int, int] = defaultdict(int)
    for found in durations:
        if found.measure == measure:
            by_step[found.at][found.bucket] = found.count
            together[found.bucket] += found.count
    spans: list[tuple[float, float] | None] = []
    for step in counts:
        low, high = (percentile(by_step[step.at], share) for share in (0.5, 0.95))
        spans.append((low, high) if low is not None and high is not None else None)
    words = [humanize_ms(value) if value is not None else "" for value in (percentile(together, s) for s in SHARES)]
    return Quantiles(count=sum(together.values()), at=words), spans


def _marks(scale: charts.Scale) -> list[charts.Mark]:
    return [
        charts.Mark(words=_short(moment), y=round(charts.HEIGHT - scale.height(moment), 2)) for moment in scale.moments
    ]


def _short(milliseconds: float) -> str:
    """A duration as a scale has it: one unit."""
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000)):
        if milliseconds >= size:
            return f"{milliseconds / size:.2g} {unit}".replace("e+01", "0")
    return f"{milliseconds:.0f} ms"


def _labels(moments: list[datetime], window: Window) -> list[str]:
    """Seven from the left end to the right."""
    every = len(moments) / 6
    return [moments[int(number * every)].strftime(window.shape) for number in range(6)] + ["now"]
