"""The ownership ownership_timeline: who held a lock when, as the geometry of a picture."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from locks.dashboard.durations import humanize
from locks.dashboard.lock.queries import Hold
from locks.dashboard.lock_row import LockRow
from locks.models import EventKind

WIDTH = 1440
# A hold that is shorter than this would not be seen.
NARROWEST = 2.0
MAX_HOLDS = 2_000
# The owners that held longest get a colour of their own; all others share the last.
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
        """As text, since there may be thousands."""
        return f"M{self.x} 0h{self.width}v44h-{self.width}z"


@dataclass(frozen=True, kw_only=True)
class Cut:
    x: float
    label: str


@dataclass(frozen=True, kw_only=True)
class Share:
    """An owner's part of the time: the numbers beneath the picture."""

    owner: str
    colour: int
    holds: int
    time: str
    percent: float


@dataclass(frozen=True, kw_only=True)
class OwnershipTimeline:
    segments: list[Segment]
    cuts: list[Cut]
    shares: list[Share]
    labels: list[str]
    # More holds than a picture can show: it begins where the oldest of the latest ones began.
    begins_late: bool
    free_percent: float


@dataclass(frozen=True)
class _Stretch:
    owner: str
    begin: datetime
    end: datetime


def ownership_timeline(
    *, ended: Sequence[Hold], current: LockRow | None, now: datetime, span: str
) -> OwnershipTimeline:
    """`ended` are the holds that ended in the span, the latest first."""
    begin = now - SPANS[span]
    stretches = [_Stretch(hold.owner, max(hold.began_at, begin), hold.ended_at) for hold in reversed(ended)]
    if current is not None and current.acquired_at is not None and current.effective_expires_at is not None:
        stretches.append(
            _Stretch(current.owner or "", max(current.acquired_at, begin), min(now, current.effective_expires_at))
        )
    stretches = [stretch for stretch in stretches if stretch.end > begin]
    shares = _shares(stretches, SPANS[span])
    colours = {share.owner: share.colour for share in shares}
    scale = WIDTH / SPANS[span].total_seconds()
    return OwnershipTimeline(
        segments=[
            Segment(
                x=round((stretch.begin - begin).total_seconds() * scale, 1),
                width=round(max(NARROWEST, (stretch.end - stretch.begin).total_seconds() * scale), 1),
                colour=colours[stretch.owner],
                label=f"{stretch.owner}, {_clock(stretch.begin)} to {_clock(stretch.end)} "
                f"({humanize((stretch.end - stretch.begin).total_seconds())})",
            )
            for stretch in stretches
        ],
        cuts=[
            Cut(
                x=round((hold.ended_at - begin).total_seconds() * scale, 1),
                label=f"{_clock(hold.ended_at)}: {hold.actor_name} took it from {hold.owner}. {hold.reason}",
            )
            for hold in ended
            if hold.ending == EventKind.FORCE_RELEASED
        ],
        shares=shares,
        labels=_labels(begin, span),
        begins_late=len(ended) >= MAX_HOLDS,
        free_percent=round(100 - sum(share.percent for share in shares), 1),
    )


def _shares(stretches: Sequence[_Stretch], span: timedelta) -> list[Share]:
    seconds: dict[str, float] = {}
    holds: dict[str, int] = {}
    for stretch in stretches:
        seconds[stretch.owner] = seconds.get(stretch.owner, 0) + (stretch.end - stretch.begin).total_seconds()
        holds[stretch.owner] = holds.get(stretch.owner, 0) + 1
    ranked = sorted(seconds, key=lambda owner: -seconds[owner])
    return [
        Share(
            owner=owner,
            colour=min(place, COLOURS),
            holds=holds[owner],
            time=humanize(seconds[owner]),
            percent=round(100 * seconds[owner] / span.total_seconds(), 1),
        )
        for place, owner in enumerate(ranked, start=1)
    ]


def _labels(begin: datetime, span: str) -> list[str]:
    """Seven moments from the left end to the right."""
    step = SPANS[span] / 6
    shape = "%H:%M" if span == "24h" else "%d %b"
    return [(begin + step * number).strftime(shape) for number in range(6)] + ["now"]


def _clock(moment: datetime) -> str:
    return moment.strftime("%d %b %H:%M:%S")
