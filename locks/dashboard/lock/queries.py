"""Lock: the present state of one lock, and its ended holds."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from locks.dashboard.database import fetch
from locks.dashboard.durations import humanize_ms
from locks.events.history.filters import Filter, Visibility, select
from locks.models import Event, EventKind, Space
from locks.pagination import TimeCursor, encode
from locks.services.lock_row import LockRow

HOLDS = 25
OVERLAPS = 25


@dataclass(frozen=True, kw_only=True)
class Hold:
    event_id: int
    end_kind: str
    lock_name: str
    owner: str
    metadata: str | None
    fencing_token: int | None
    actor_name: str
    reason: str | None
    recorded_at: datetime
    began_at: datetime
    ended_at: datetime
    held_ms: int

    @classmethod
    def of_event(cls, event: Event) -> "Hold":
        """As ended_holds.sql has it."""
        held_ms = event.held_ms or 0
        ended_at = event.at - timedelta(milliseconds=event.recorded_late_ms or 0)
        return cls(
            event_id=event.pk, end_kind=event.kind, lock_name=event.lock_name or "", owner=event.owner or "",
            metadata=event.metadata, fencing_token=event.fencing_token, actor_name=event.actor_name,
            reason=event.reason, recorded_at=event.at, began_at=ended_at - timedelta(milliseconds=held_ms),
            ended_at=ended_at, held_ms=held_ms,
        )  # fmt: skip

    @property
    def end_label(self) -> str:
        match self.end_kind:
            case EventKind.RELEASED:
                return "Released"
            case EventKind.EXPIRED:
                return "Expired"
        return f"Force-released by {self.actor_name}"

    @property
    def cursor(self) -> str:
        """Where the next page begins."""
        return encode(TimeCursor(at=self.recorded_at, id=self.event_id))


@dataclass(frozen=True, kw_only=True)
class Percentiles:
    count: int
    p50: str
    p95: str
    p99: str
    maximum: str


def find_lock(*, space: Space, name: str) -> LockRow | None:
    locks = fetch("lock/lock", LockRow, {"space_id": space.pk, "name": name})
    return locks[0] if locks else None


def has_history(*, space: Space, name: str) -> bool:
    """The row of a name that was not used for long is purged; its history may still be there."""
    return Event.objects.filter(space_id=space.pk, lock_name=name).exists()


def is_known(*, space: Space, name: str) -> bool:
    """Whether the lock has a page."""
    return find_lock(space=space, name=name) is not None or has_history(space=space, name=name)


def ended_holds(
    *, space: Space, name: str, since: datetime | None = None, cursor: TimeCursor | None = None, limit: int
) -> list[Hold]:
    parameters = {
        "space_id": space.pk,
        "name": name,
        "since": since,
        "before_at": cursor.at if cursor else None,
        "before_id": cursor.id if cursor else None,
        "rows": limit,
    }
    return fetch("lock/ended_holds", Hold, parameters)


def holds_of_many(*, space: Space, filters: Filter, limit: int, from_oldest: bool = False) -> list[Hold]:
    """The ended holds of all locks that the filter finds, the latest first. Of too many, these are the latest or, if
    asked for, the oldest."""
    ends = replace(filters, kinds=(EventKind.RELEASED, EventKind.EXPIRED, EventKind.FORCE_RELEASED))
    events = select(Visibility(space_id=space.pk), ends)
    if from_oldest:
        return [Hold.of_event(event) for event in events.order_by("at", "id")[:limit]][::-1]
    return [Hold.of_event(event) for event in events.order_by("-at", "-id")[:limit]]


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """A live lease (`lease`) or a waiter (`waiter`) of another name that overlaps."""

    kind: str
    name: str
    owner: str
    since: datetime


def overlaps(*, space: Space, name: str) -> list[Overlap]:
    """None for a plain name, without a query."""
    if name.partition(":")[0] + ":" not in space.namespaces:
        return []
    return fetch("lock/overlaps", Overlap, {"space_id": space.pk, "name": name, "rows": OVERLAPS})


def percentiles(holds: Sequence[Hold]) -> Percentiles | None:
    if not holds:
        return None
    times = sorted(hold.held_ms for hold in holds)
    return Percentiles(
        count=len(times),
        p50=humanize_ms(percentile(times, 0.5)),
        p95=humanize_ms(percentile(times, 0.95)),
        p99=humanize_ms(percentile(times, 0.99)),
        maximum=humanize_ms(times[-1]),
    )


def percentile(times: Sequence[int], share: float) -> int:
    """Of times in ascending order."""
    return times[min(len(times) - 1, int(share * len(times)))]
