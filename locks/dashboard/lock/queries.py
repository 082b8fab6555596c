"""The story of one lock: how it stands, who held it and how each hold ended."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from locks.dashboard.database import fetch
from locks.dashboard.durations import humanize, humanize_ms
from locks.dashboard.lock_row import LockRow, State
from locks.dashboard.metadata import Chip, chips
from locks.models import Event, EventKind, Space, Waiter
from locks.pagination import TimeCursor, encode

HOLDS = 25
MAX_WAITERS = 20


@dataclass(frozen=True, kw_only=True)
class Hold:
    event_id: int
    ending: str
    owner: str
    metadata: str | None
    fencing_token: int | None
    actor_name: str
    reason: str | None
    recorded_at: datetime
    began_at: datetime
    ended_at: datetime
    held_ms: int

    @property
    def chips(self) -> list[Chip]:
        return chips(self.metadata)

    @property
    def icon(self) -> str:
        return {EventKind.EXPIRED: "overdue", EventKind.FORCE_RELEASED: "force"}.get(EventKind(self.ending), "free")

    @property
    def how_it_ended(self) -> str:
        match self.ending:
            case EventKind.RELEASED:
                return "Given back"
            case EventKind.EXPIRED:
                return "Ran out"
        return f"Taken by {self.actor_name}"

    @property
    def cursor(self) -> str:
        """Where the next page begins."""
        return encode(TimeCursor(at=self.recorded_at, id=self.event_id))


@dataclass(frozen=True, kw_only=True)
class Percentiles:
    count: int
    median: str
    high: str
    longest: str


def find_lock(*, space: Space, name: str) -> LockRow | None:
    found = fetch("lock/lock", LockRow, {"space_id": space.pk, "name": name})
    return found[0] if found else None


def has_history(*, space: Space, name: str) -> bool:
    """The row of a name that nobody used for long is gone; its history may still be there."""
    return Event.objects.filter(space_id=space.pk, lock_name=name).exists()


def holds(
    *, space: Space, name: str, since: datetime | None = None, cursor: TimeCursor | None = None, limit: int
) -> list[Hold]:
    return fetch(
        "lock/ended_holds",
        Hold,
        {
            "space_id": space.pk, "name": name, "since": since, "before_at": cursor.at if cursor else None,
            "before_id": cursor.id if cursor else None, "rows": limit,
        },
    )  # fmt: skip


def waiters(*, space: Space, name: str, now: datetime) -> list[Waiter]:
    in_line = Waiter.objects.filter(space=space, name=name, handed_lease_id__isnull=True, deadline_at__gt=now).order_by(
        "queue_seq", "id"
    )
    return list(in_line[:MAX_WAITERS])


def waiters_of(*, space: Space, names: Sequence[str], now: datetime) -> dict[str, list[Waiter]]:
    """The first in line for each of a few locks."""
    found: dict[str, list[Waiter]] = {name: [] for name in names}
    in_line = Waiter.objects.filter(space=space, name__in=names, handed_lease_id__isnull=True, deadline_at__gt=now)
    for waiter in in_line.order_by("queue_seq", "id")[: MAX_WAITERS * len(names)]:
        found[waiter.name].append(waiter)
    return {name: line[:MAX_WAITERS] for name, line in found.items()}


def percentiles(ended: Sequence[Hold]) -> Percentiles | None:
    if not ended:
        return None
    times = sorted(hold.held_ms for hold in ended)

    def at(share: float) -> str:
        return humanize_ms(times[min(len(times) - 1, int(share * len(times)))])

    return Percentiles(count=len(times), median=at(0.5), high=at(0.95), longest=humanize_ms(times[-1]))


def next_step_text(lock: LockRow) -> str:
    """The second half of the sentence on top of the page."""
    match lock.state:
        case State.OVERDUE:
            assert lock.effective_expires_at is not None
            return f"Ran out {humanize((lock.now - lock.effective_expires_at).total_seconds())} ago; the next claim takes it."
        case State.DELAYED:
            return "Closed to everyone until its delay is over."
        case State.FREE:
            return "Nobody holds it; the next claim takes it."
    return ""
