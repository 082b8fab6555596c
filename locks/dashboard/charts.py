"""Pictures of numbers over time, as geometry: the template draws it, stretched to the width there is.

A picture is `WIDTH` wide and `HEIGHT` high. Words are no part of it, since they would be stretched too.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH = 1000.0
HEIGHT = 160.0
# Of a step's width; the rest keeps the bars apart.
BAR = 0.72
# A bar that is lower than this would not be seen.
LOWEST = 2.0
# Where a scale of durations may begin and end, in milliseconds.
ROUND_MS = (1, 10, 100, 1_000, 10_000, 60_000, 600_000, 3_600_000, 21_600_000, 86_400_000, 604_800_000, 2_419_200_000)


# Marks beside a picture keep this distance.
APART = 24.0


@dataclass(frozen=True, kw_only=True)
class Mark:
    """Something written beside a picture, and how far below its upper edge."""

    words: str
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
    """What stands in one step, from below: one bar for each number that is not 0, None for the others."""

    bars: list[Bar | None]


def stacks(values: Sequence[Sequence[int]], *, top: float) -> list[Stack]:
    """`top` is the number at the upper edge."""
    step = WIDTH / max(1, len(values))
    drawn: list[Stack] = []
    for place, numbers in enumerate(values):
        floor = HEIGHT
        bars: list[Bar | None] = []
        for number in numbers:
            if not number:
                bars.append(None)
                continue
            height = max(LOWEST, HEIGHT * number / top)
            floor -= height
            bars.append(_bar(place, step, y=max(0.0, floor), height=height))
        drawn.append(Stack(bars=bars))
    return drawn


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Of durations, in milliseconds: each part of the height is so many times more, so that short and long are seen."""

    bottom: float
    top: float

    @classmethod
    def around(cls, values: Sequence[tuple[float, float] | None]) -> "Scale":
        lowest = min((value[0] for value in values if value), default=1.0)
        highest = max((value[1] for value in values if value), default=100.0)
        bottom = max((moment for moment in ROUND_MS[:-1] if moment <= lowest), default=ROUND_MS[0])
        top = min((moment for moment in ROUND_MS if moment >= highest and moment > bottom), default=ROUND_MS[-1])
        return cls(bottom=bottom, top=top)

    @property
    def moments(self) -> list[float]:
        """The round durations to be marked, from the bottom to the top, no two so near that they would touch."""
        found = [self.bottom]
        for moment in ROUND_MS:
            if self.height(moment) - self.height(found[-1]) >= APART <= HEIGHT - self.height(moment):
                found.append(moment)
        return [*found, self.top]

    def height(self, milliseconds: float) -> float:
        share = math.log(max(self.bottom, milliseconds) / self.bottom) / math.log(self.top / self.bottom)
        return HEIGHT * min(1.0, share)


def ranges(values: Sequence[tuple[float, float] | None], *, scale: Scale) -> list[Bar | None]:
    """From a lower to a higher duration."""
    step = WIDTH / max(1, len(values))
    drawn: list[Bar | None] = []
    for place, value in enumerate(values):
        if value is None:
            drawn.append(None)
            continue
        low, high = (scale.height(milliseconds) for milliseconds in value)
        drawn.append(_bar(place, step, y=min(HEIGHT - high, HEIGHT - LOWEST), height=max(LOWEST, high - low)))
    return drawn


def round_top(number: float) -> int:
    """The first round number that is not below this one and has a whole half; at least 4."""
    if number <= 4:
        return 4
    tenth = 10 ** math.floor(math.log10(number)) // 10 or 1
    return next(top for top in (tenth * part for part in (6, 8, 10, 12, 16, 20, 30, 40, 50, 60, 80, 100))
                if top >= number and top % 2 == 0)  # fmt: skip


def _bar(place: int, step: float, *, y: float, height: float) -> Bar:
    return Bar(x=round((place + (1 - BAR) / 2) * step, 2), y=round(y, 2), width=round(step * BAR, 2),
               height=round(height, 2))  # fmt: skip
