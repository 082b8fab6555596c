"""The numbers above the board, and the grants_per_minute of the last hour."""

from dataclasses import dataclass
from datetime import datetime

from locks.dashboard.database import fetch
from locks.models import Space

MINUTES = 60


@dataclass(frozen=True, kw_only=True)
class Counters:
    held: int
    expiring: int
    overdue: int
    closed: int
    waiting: int
    now: datetime

    @property
    def listed(self) -> int:
        """What the board shows when nobody narrows it down."""
        return self.held + self.overdue + self.closed


@dataclass(frozen=True, kw_only=True)
class _Minute:
    minute: int
    granted: int
    expired: int


@dataclass(frozen=True, kw_only=True)
class GrantRate:
    """Grants in each of the last sixty minutes, oldest first."""

    granted: list[int]
    expired: int

    @property
    def latest(self) -> int:
        """Of the last whole minute: the one under way would always look like a drop."""
        return self.granted[-2]

    @property
    def peak(self) -> int:
        return max(self.granted)

    @property
    def bars(self) -> list[tuple[int, float, float]]:
        """x, y and height in a picture that is sixty wide and twenty high; a minute with any grant is visible."""
        peak = self.peak or 1
        heights = [max(1.5, 20 * count / peak) if count else 0.0 for count in self.granted]
        return [(x, round(20 - height, 2), round(height, 2)) for x, height in enumerate(heights)]


def counters(*, space: Space) -> Counters:
    (answer,) = fetch("now/counters", Counters, {"space_id": space.pk})
    return answer


def grants_per_minute(*, space: Space) -> GrantRate:
    granted = [0] * MINUTES
    expired = 0
    for minute in fetch("now/grants_per_minute", _Minute, {"space_id": space.pk}):
        granted[minute.minute] = minute.granted
        expired += minute.expired
    return GrantRate(granted=granted, expired=expired)
