"""Now: a page of active locks, and the counters above it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from locks.dashboard.database import fetch
from locks.dashboard.event_text import EventSummary, recent_events
from locks.dashboard.filters import Filters
from locks.dashboard.origins import Origin, origins_of
from locks.dashboard.page_number import LAST_PAGE
from locks.dashboard.stuck.queries import describe_reasons
from locks.dashboard.waiters import QueuedWaiter, waiters_of
from locks.models import Note, Space
from locks.services.lock_row import LockRow
from locks.services.notes import find_notes
from locks.services.stuck import Reason, StuckLock, find_stuck

ROWS = 50
EXACT_UP_TO = 10_000
MINUTES = 60
MAX_EXPORTED = 1_000_000
EXPORT_BATCH = 1_000

SORTS: dict[str, str] = {
    "severity": "Severity",
    "left": "Least time left",
    "most_left": "Most time left",
    "oldest": "Held longest",
    "newest": "Newest",
    "quiet": "Quiet longest",
    "queue": "Longest queue",
    "name": "Name",
    "owner": "Owner",
}
STATES: dict[str, str] = {
    "": "All",
    "held": "Held",
    "expiring": "Expiring",
    "overdue": "Overdue",
    "cooldown": "Cooling down",
    "waiting": "With waiters",
}
GROUPS: dict[str, str] = {"": "No groups", "owner": "Owner", "prefix": "Prefix"}


@dataclass(frozen=True, kw_only=True)
class LockListFilters(Filters):
    """`open` has the ids of the locks whose details are shown, `closed` the labels of the groups that are collapsed."""

    CHOICES = {"sort": SORTS, "group": GROUPS, "state": STATES}
    NARROWING = ("q", "prefix", "owner", "state")
    NAMES = {"q": True, "prefix": True}
    LISTS = {"open": 5, "closed": 20}

    q: str = ""
    prefix: str = ""
    owner: str = ""
    state: str = ""
    sort: str = "severity"
    group: str = ""
    closed: tuple[str, ...] = ()

    def sql_parameters(self, space: Space) -> dict[str, Any]:
        return {
            "space_id": space.pk, "prefix": self.prefix, "owner": self.owner, "search": self.q, "state": self.state
        }  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Group:
    """Shown above the first row of a group on a page; the numbers are those of the whole group."""

    label: str
    size: int
    alerts: int
    is_closed: bool
    # The value of `closed` once this group was opened or closed.
    toggled: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Row:
    lock: LockRow
    stuck: StuckLock | None
    group: Group | None
    # The value of `open` once this row was opened or closed.
    toggled: tuple[str, ...]
    # None while the details are closed.
    recent_events: list[EventSummary] | None
    waiters: list[QueuedWaiter]
    origin: Origin | None
    note: Note | None

    @property
    def is_stuck(self) -> bool:
        """And not snoozed."""
        return self.stuck is not None and self.stuck.snoozed_until is None

    @property
    def reasons(self) -> list[tuple[Reason, str]]:
        """Why it needs attention, the same as on Stuck."""
        return describe_reasons(self.stuck) if self.stuck else []


@dataclass(frozen=True, kw_only=True)
class LockList:
    rows: list[Row]
    # None without a filter: then the counters have the number.
    total: int | None
    first: int
    has_next: bool

    @property
    def last(self) -> int:
        return self.first + len(self.rows) - 1

    @property
    def total_text(self) -> str:
        assert self.total is not None
        return f"more than {EXACT_UP_TO:,}" if self.total > EXACT_UP_TO else f"{self.total:,}"


@dataclass(frozen=True, kw_only=True)
class Counters:
    space_id: int
    held: int
    expiring: int
    overdue: int
    cooldown: int
    waiting: int
    now: datetime

    @property
    def active(self) -> int:
        """What the list shows without a filter."""
        return self.held + self.overdue + self.cooldown


@dataclass(frozen=True, kw_only=True)
class GrantRate:
    """Grants in each of the last sixty minutes, oldest first."""

    granted: list[int]
    expired: int

    @property
    def latest(self) -> int:
        """Of the last complete minute: the current one would always look like a drop."""
        return self.granted[-2]

    @property
    def peak(self) -> int:
        return max(self.granted)

    @property
    def bars(self) -> list[tuple[int, float, float]]:
        """x, y and height in a chart that is sixty wide and twenty high; a minute with any grant is visible."""
        peak = self.peak or 1
        heights = [max(1.5, 20 * count / peak) if count else 0.0 for count in self.granted]
        return [(x, round(20 - height, 2), round(height, 2)) for x, height in enumerate(heights)]


def lock_list(*, space: Space, filters: LockListFilters) -> LockList:
    parameters = filters.sql_parameters(space)
    skipped = (filters.page - 1) * ROWS
    page = {**parameters, "sort": filters.sort, "rows": ROWS + 1, "skipped": skipped}
    groups: list[Group | None]
    if filters.group:
        grouped = {**page, "group_by": filters.group, "closed": list(filters.closed)}
        rows = fetch("now/lock_list_grouped", dict[str, Any], grouped)
        groups = _first_of_each([_pop_group(row, filters) for row in rows])
        locks = [LockRow(**row) for row in rows]
    else:
        locks = fetch("now/lock_list", LockRow, page)
        groups = [None] * len(locks)
    shown = locks[:ROWS]
    opened = [lock for lock in shown if str(lock.id) in filters.open]
    open_names = [lock.name for lock in opened]
    stuck = find_stuck(space=space, lock_ids=[lock.id for lock in shown])
    events = recent_events(space=space, names=open_names)
    waiters = waiters_of(space=space, names=open_names)
    origins = origins_of(space=space, lock_ids=[lock.id for lock in opened])
    notes = find_notes(space=space, names=open_names)
    return LockList(
        rows=[
            Row(
                lock=lock,
                stuck=stuck.get(lock.id),
                group=group,
                toggled=filters.toggle(str(lock.id)),
                recent_events=events.get(lock.name),
                waiters=waiters.get(lock.name, []),
                origin=origins.get(lock.id),
                note=notes.get(lock.name),
            )
            for lock, group in zip(shown, groups[:ROWS], strict=True)
        ],
        total=_total(filters, parameters, locks=locks) if filters.is_filtered else None,
        first=skipped + 1,
        has_next=len(locks) > ROWS and filters.page < LAST_PAGE,
    )


def export_locks(*, space: Space, filters: LockListFilters) -> Iterator[list[LockRow]]:
    """All locks of the filter in batches. The ids are read at once, so that no transaction stays open while a client
    reads slowly; each lock is as it is when its batch is read."""
    parameters = {**filters.sql_parameters(space), "rows": MAX_EXPORTED}
    ids = [row["id"] for row in fetch("now/export_ids", dict[str, int], parameters)]
    for start in range(0, len(ids), EXPORT_BATCH):
        yield fetch("now/export_locks", LockRow, {"ids": ids[start : start + EXPORT_BATCH]})


def counters(*, spaces: Sequence[Space]) -> dict[int, Counters]:
    """By the id of the space; one query for all."""
    rows = fetch("now/counters", Counters, {"space_ids": [space.pk for space in spaces]})
    return {row.space_id: row for row in rows}


def grants_per_minute(*, space: Space) -> GrantRate:
    granted = [0] * MINUTES
    expired = 0
    for row in fetch("now/grants_per_minute", dict[str, int], {"space_id": space.pk}):
        granted[row["minute"]] = row["granted"]
        expired += row["expired"]
    return GrantRate(granted=granted, expired=expired)


def _total(filters: LockListFilters, parameters: dict[str, Any], *, locks: list[LockRow]) -> int:
    """Counted only if this page does not show it, since to count means to read all locks again."""
    if len(locks) <= ROWS and (locks or filters.page == 1) and not filters.closed:
        return (filters.page - 1) * ROWS + len(locks)
    (row,) = fetch("now/lock_list_size", dict[str, int], parameters)
    return row["number"]


def _pop_group(row: dict[str, Any], filters: LockListFilters) -> Group:
    label = row.pop("label")
    return Group(
        label=label, size=row.pop("group_size"), alerts=row.pop("group_alerts"), is_closed=label in filters.closed,
        toggled=filters.toggle(label, name="closed"),
    )  # fmt: skip


def _first_of_each(groups: list[Group]) -> list[Group | None]:
    before: Iterable[Group | None] = [None, *groups]
    return [group if group != previous else None for group, previous in zip(groups, before, strict=False)]
