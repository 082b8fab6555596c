"""The geometry of charts over time. The template draws them as SVG, stretched to the width of the page.

A chart is `WIDTH` wide and `HEIGHT` high. Labels are not part of it, since they would be stretched too.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH = 1000.0
HEIGHT = 160.0
# The part of a step that its bar fills.
BAR_WIDTH = 0.72
# Lower bars would be invisible.
MIN_BAR_HEIGHT = 2.0
# The marks of a scale of durations, in milliseconds.
ROUND_MS = (1, 10, 100, 1_000, 10_000, 60_000, 600_000, 3_600_000, 21_600_000, 86_400_000, 604_800_000, 2_419_200_000)
# Two marks are at least so far apart.
MIN_MARK_DISTANCE = 24.0


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A label beside a chart, and its distance from the upper edge."""

    label: str
    y: float

    @property
    def percent(self) -> float:
        return round(100 * self.y / HEIGHT, 2)


@dataclass(frozen=True, kw_only=True)
class Bar:
    x: float
    y: float
    width: float
    height: float

    @property
    def path(self) -> str:
        return f"M{self.x} {self.y}h{self.width}v{self.height}h-{self.width}z"


@dataclass(frozen=True, kw_only=True)
class Stack:
    """The bars of one step from the bottom up; None for a value of 0."""

    bars: list[Bar | None]


def stacks(values: Sequence[Sequence[int]], *, top: float) -> list[Stack]:
    """`top` is the value at the upper edge."""
    step = WIDTH / max(1, len(values))
    drawn: list[Stack] = []
    for index, numbers in enumerate(values):
        floor = HEIGHT
        bars: list[Bar | None] = []
        for number in numbers:
            if not number:
                bars.append(None)
                continue
            height = max(MIN_BAR_HEIGHT, HEIGHT * number / top)
            floor -= height
            bars.append(_bar(index, step, y=max(0.0, floor), height=height))
        drawn.append(Stack(bars=bars))
    return drawn


@dataclass(frozen=True, kw_only=True)
class Scale:
    """A logarithmic scale of durations in milliseconds."""

    bottom: float
    top: float

    @classmethod
    def around(cls, values: Sequence[tuple[float, float] | None]) -> "Scale":
        lowest = min((value[0] for value in values if value), default=1.0)
        highest = max((value[1] for value in values if value), default=100.0)
        bottom = max((mark for mark in ROUND_MS[:-1] if mark <= lowest), default=ROUND_MS[0])
        top = min((mark for mark in ROUND_MS if mark >= highest and mark > bottom), default=ROUND_MS[-1])
        return cls(bottom=bottom, top=top)

    @property
    def marks(self) -> list[float]:
        """Round durations from the bottom to the top."""
        marks = [self.bottom]
        for mark in ROUND_MS:
            if self.height(mark) - self.height(marks[-1]) >= MIN_MARK_DISTANCE <= HEIGHT - self.height(mark):
                marks.append(mark)
        return [*marks, self.top]

    def height(self, milliseconds: float) -> float:
        share = math.log(max(self.bottom, milliseconds) / self.bottom) / math.log(self.top / self.bottom)
        return HEIGHT * min(1.0, share)


def ranges(values: Sequence[tuple[float, float] | None], *, scale: Scale) -> list[Bar | None]:
    """Bars from a lower to a higher duration."""
    step = WIDTH / max(1, len(values))
    drawn: list[Bar | None] = []
    for index, value in enumerate(values):
        if value is None:
            drawn.append(None)
            continue
        low, high = (scale.height(milliseconds) for milliseconds in value)
        drawn.append(
            _bar(index, step, y=min(HEIGHT - high, HEIGHT - MIN_BAR_HEIGHT), height=max(MIN_BAR_HEIGHT, high - low))
        )
    return drawn


def duration_marks(scale: Scale) -> list[Mark]:
    return [Mark(label=_format_mark(mark), y=round(HEIGHT - scale.height(mark), 2)) for mark in scale.marks]


def _format_mark(milliseconds: float) -> str:
    """A round duration in one unit."""
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000)):
        if milliseconds >= size:
            return f"{milliseconds / size:.2g} {unit}".replace("e+01", "0")
    return f"{milliseconds:.0f} ms"


def round_top(number: float) -> int:
    """The next even round number, at least 4: its half is a whole number too."""
    if number <= 4:
        return 4
    tenth = 10 ** math.floor(math.log10(number)) // 10 or 1
    return next(top for top in (tenth * part for part in (6, 8, 10, 12, 16, 20, 30, 40, 50, 60, 80, 100))
                if top >= number and top % 2 == 0)  # fmt: skip


def _bar(index: int, step: float, *, y: float, height: float) -> Bar:
    return Bar(x=round((index + (1 - BAR_WIDTH) / 2) * step, 2), y=round(y, 2), width=round(step * BAR_WIDTH, 2),
               height=round(height, 2))  # fmt: skip
