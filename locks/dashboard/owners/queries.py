"""Who is at work in a space: each owner under each token and session, and whether it is still heard of."""

import hashlib
from dataclasses import dataclass, fields, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from django.http import QueryDict

from locks.dashboard.database import fetch
from locks.dashboard.lock_row import LockRow
from locks.dashboard.page_number import parse_page
from locks.models import Space

ROWS = 50
MAX_OPEN = 5
LOCKS_SHOWN = 20
MAX_TEXT = 256

SORTS: dict[str, str] = {
    "silent": "Silent first",
    "holding": "Most held",
    "waiting": "Most waiting",
    "name": "Name",
}


class OwnerStatus(StrEnum):
    """`silent`: it holds locks and has renewed none of them in time."""

    ALIVE = "alive"
    SILENT = "silent"
    WAITING = "waiting"
    IDLE = "idle"

    @property
    def word(self) -> str:
        return self.value.capitalize()

    @property
    def icon(self) -> str:
        return {"alive": "now", "silent": "overdue", "waiting": "expiring", "idle": "free"}[self.value]


@dataclass(frozen=True, kw_only=True)
class OwnersFilter:
    q: str = ""
    sort: str = "silent"
    page: int = 1
    open: tuple[str, ...] = ()

    @classmethod
    def of(cls, query: QueryDict) -> "OwnersFilter":
        sort = query.get("sort", "silent")
        return cls(
            q=query.get("q", "").replace("\0", "").strip()[:MAX_TEXT],
            sort=sort if sort in SORTS else "silent",
            page=parse_page(query),
            open=tuple(query.getlist("open"))[:MAX_OPEN],
        )

    def query(self, **changes: Any) -> str:
        changed = replace(self, **changes)
        parameters = QueryDict(mutable=True)
        for field in fields(changed):
            value = getattr(changed, field.name)
            if value != field.default:
                parameters.setlist(field.name, [str(v) for v in (value if isinstance(value, tuple) else (value,))])
        return f"?{parameters.urlencode()}" if parameters else "?"


@dataclass(frozen=True, kw_only=True)
class Owner:
    owner: str
    holder_id: str
    in_session: bool
    holding: int
    overdue: int
    beating: int
    waiting: int
    last_heartbeat_at: datetime | None
    since: datetime | None
    token_name: str
    token_is_dead: bool
    found: int
    now: datetime

    @property
    def key(self) -> str:
        """For ids and addresses: owners may have any characters in their names."""
        return hashlib.sha256(f"{self.holder_id} {self.owner}".encode()).hexdigest()[:16]

    @property
    def tick(self) -> str:
        return f"{self.holder_id}:{self.owner}"

    @property
    def pulse(self) -> OwnerStatus:
        if self.holding or self.overdue:
            return OwnerStatus.ALIVE if self.beating else OwnerStatus.SILENT
        return OwnerStatus.WAITING if self.waiting else OwnerStatus.IDLE


@dataclass(frozen=True, kw_only=True)
class OwnerRow:
    owner: Owner
    toggle: str
    # Of an open row; otherwise None.
    locks: list[LockRow] | None


@dataclass(frozen=True, kw_only=True)
class Owners:
    rows: list[OwnerRow]
    found: int
    first: int
    previous: str | None
    next: str | None

    @property
    def last(self) -> int:
        return self.first + len(self.rows) - 1


def owners(*, space: Space, wanted: OwnersFilter) -> Owners:
    pattern = wanted.q.replace("\\", "\\\\").replace("%", r"\%").replace("_", r"\_")
    skipped = (wanted.page - 1) * ROWS
    asked = {"space_id": space.pk, "search": wanted.q, "pattern": f"%{pattern}%", "sort": wanted.sort,
             "rows": ROWS, "skipped": skipped}  # fmt: skip
    shown = fetch("owners/owners", Owner, asked)
    found = shown[0].found if shown else 0
    locks = _locks_of([owner for owner in shown if owner.key in wanted.open], space=space)
    return Owners(
        rows=[
            OwnerRow(
                owner=owner,
                toggle=wanted.query(open=_toggled(wanted.open, owner.key)),
                locks=locks.get((owner.owner, owner.holder_id), []) if owner.key in wanted.open else None,
            )
            for owner in shown
        ],
        found=found,
        first=skipped + 1,
        previous=wanted.query(page=wanted.page - 1, open=()) if wanted.page > 1 else None,
        next=wanted.query(page=wanted.page + 1, open=()) if found > skipped + ROWS else None,
    )


def _toggled(opened: tuple[str, ...], key: str) -> tuple[str, ...]:
    return tuple(one for one in opened if one != key) if key in opened else (*opened, key)[-MAX_OPEN:]


def _locks_of(opened: list[Owner], *, space: Space) -> dict[tuple[str, str], list[LockRow]]:
    if not opened:
        return {}
    asked = {"space_id": space.pk, "owners": [owner.owner for owner in opened], "each": LOCKS_SHOWN,
             "holder_ids": [owner.holder_id for owner in opened]}  # fmt: skip
    found: dict[tuple[str, str], list[LockRow]] = {}
    for row in fetch("owners/locks_of_owners", dict, asked):
        holder = (row["owner"], row.pop("holder_id"))
        found.setdefault(holder, []).append(LockRow(**row))
    return found
