"""Owners: each owner under each token and session, with its heartbeats and what it holds."""

import hashlib
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from locks.dashboard.database import fetch
from locks.dashboard.filters import Filters
from locks.models import Space
from locks.services.lock_row import LockRow

ROWS = 50
LOCKS_SHOWN = 20

SORTS: dict[str, str] = {
    "silent": "Silent first",
    "holding": "Most held",
    "waiting": "Most waiting",
    "name": "Name",
}


class OwnerStatus(StrEnum):
    """`silent`: it holds locks, and the heartbeats of all of them are late."""

    ALIVE = "alive"
    SILENT = "silent"
    WAITING = "waiting"
    IDLE = "idle"

    @property
    def label(self) -> str:
        return self.value.capitalize()

    @property
    def icon(self) -> str:
        return {"alive": "now", "silent": "overdue", "waiting": "expiring", "idle": "free"}[self.value]


@dataclass(frozen=True, kw_only=True)
class OwnersFilters(Filters):
    """`open` has the keys of the owners whose locks are shown."""

    CHOICES = {"sort": SORTS}
    NARROWING = ("q",)

    q: str = ""
    sort: str = "silent"


@dataclass(frozen=True, kw_only=True)
class Owner:
    owner: str
    holder_id: str
    in_session: bool
    holding: int
    overdue: int
    heartbeating: int
    waiting: int
    last_heartbeat_at: datetime | None
    since: datetime | None
    # None for a person who has reserved a lock.
    token_name: str | None
    token_public_id: str | None
    token_is_invalid: bool
    total: int
    now: datetime

    @property
    def key(self) -> str:
        """For element ids and URLs: the name of an owner may have any characters."""
        return hashlib.sha256(f"{self.holder_id} {self.owner}".encode()).hexdigest()[:16]

    @property
    def selection_value(self) -> str:
        return f"{self.holder_id}:{self.owner}"

    @property
    def status(self) -> OwnerStatus:
        if self.holding or self.overdue:
            return OwnerStatus.ALIVE if self.heartbeating else OwnerStatus.SILENT
        return OwnerStatus.WAITING if self.waiting else OwnerStatus.IDLE


@dataclass(frozen=True, kw_only=True)
class OwnerRow:
    owner: Owner
    # The value of `open` once this row was opened or closed.
    toggled: tuple[str, ...]
    # None while the row is closed.
    locks: list[LockRow] | None


@dataclass(frozen=True, kw_only=True)
class Owners:
    rows: list[OwnerRow]
    total: int
    first: int
    has_next: bool

    @property
    def last(self) -> int:
        return self.first + len(self.rows) - 1


def owners(*, space: Space, filters: OwnersFilters) -> Owners:
    skipped = (filters.page - 1) * ROWS
    listed = _owners(space, search=filters.q, sort=filters.sort, skipped=skipped)
    total = listed[0].total if listed else 0
    locks = _locks_of([owner for owner in listed if owner.key in filters.open], space=space)
    return Owners(
        rows=[OwnerRow(owner=owner, toggled=filters.toggle(owner.key), locks=locks.get(owner.key)) for owner in listed],
        total=total,
        first=skipped + 1,
        has_next=total > skipped + ROWS,
    )


def holders(*, space: Space, owner: str) -> list[Owner]:
    """One owner under each token and session."""
    return _owners(space, owner=owner)


def _owners(space: Space, *, owner: str = "", search: str = "", sort: str = "silent", skipped: int = 0) -> list[Owner]:
    parameters = {
        "space_id": space.pk, "owner": owner, "search": search, "sort": sort, "rows": ROWS, "skipped": skipped
    }  # fmt: skip
    return fetch("owners/owners", Owner, parameters)


def _locks_of(opened: list[Owner], *, space: Space) -> dict[str, list[LockRow]]:
    """By the owner's key."""
    if not opened:
        return {}
    locks: dict[str, list[LockRow]] = {owner.key: [] for owner in opened}
    keys = {(owner.owner, owner.holder_id): owner.key for owner in opened}
    parameters = {
        "space_id": space.pk, "owners": [owner for owner, _ in keys],
        "holder_ids": [holder_id for _, holder_id in keys], "each": LOCKS_SHOWN,
    }  # fmt: skip
    for lock in fetch("owners/locks_of_owners", LockRow, parameters):
        assert lock.owner is not None
        assert lock.holder_id is not None
        locks[keys[lock.owner, lock.holder_id]].append(lock)
    return locks
