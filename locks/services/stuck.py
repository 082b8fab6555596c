"""Finds held locks that need attention, and remembers them for the navigation and for the order of other pages."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from django.db.models import Exists, OuterRef
from django.db.models.functions import Now

from locks.models import Lock, Space, StuckCount
from locks.services.lock_row import LockRow
from locks.services.sql_files import SqlFiles

# So many waiters are a long queue.
MIN_QUEUE = 5
# So many stuck locks of a space are remembered, the most urgent ones.
MAX_REMEMBERED = 1_000

_fetch = SqlFiles(Path(__file__).parent / "sql").fetch


class Reason(StrEnum):
    """The most urgent first, as in sql/stuck_locks.sql."""

    OVERDUE = "overdue"
    INVALID_TOKEN = "invalid_token"  # noqa: S105 -- not one
    MAX_HOLD = "max_hold"
    LONG_HOLD = "long_hold"
    NOT_RENEWED = "not_renewed"
    RELEASE_REQUESTED = "release_requested"
    LONG_QUEUE = "long_queue"

    @property
    def label(self) -> str:
        return {
            Reason.OVERDUE: "Overdue",
            Reason.INVALID_TOKEN: "Token no longer valid",
            Reason.MAX_HOLD: "Past the max hold",
            Reason.LONG_HOLD: "Longer than usual",
            Reason.NOT_RENEWED: "Not renewed with the others",
            Reason.RELEASE_REQUESTED: "Release requested",
            Reason.LONG_QUEUE: "Long queue",
        }[self]


@dataclass(frozen=True, kw_only=True)
class StuckLock:
    lock: LockRow
    is_overdue: bool
    has_invalid_token: bool
    exceeds_max_hold: bool
    is_long_hold: bool
    is_not_renewed: bool
    has_release_request: bool
    has_long_queue: bool
    token_name: str | None
    token_ended_at: datetime | None
    token_is_revoked: bool | None
    # How long the last holds of the same name took.
    sample_size: int | None
    median_ms: int | None
    p90_ms: int | None
    # When the holder last renewed one of its other locks, and how many it has.
    others_renewed_at: datetime | None
    others: int | None
    # The latest request for its release, and how many people have asked.
    requested_by: str | None
    requested_at: datetime | None
    request_reason: str | None
    requests: int | None
    first_enqueued_at: datetime | None
    snoozed_until: datetime | None
    note: str | None
    snoozed_by: str | None
    snoozed_at: datetime | None

    @property
    def reasons(self) -> list[Reason]:
        applies = {
            Reason.OVERDUE: self.is_overdue,
            Reason.INVALID_TOKEN: self.has_invalid_token,
            Reason.MAX_HOLD: self.exceeds_max_hold,
            Reason.LONG_HOLD: self.is_long_hold,
            Reason.NOT_RENEWED: self.is_not_renewed,
            Reason.RELEASE_REQUESTED: self.has_release_request,
            Reason.LONG_QUEUE: self.has_long_queue,
        }
        return [reason for reason in Reason if applies[reason]]


@dataclass(frozen=True, kw_only=True)
class Inbox:
    locks: list[StuckLock]
    total: int
    snoozed: int
    # A lock can have several reasons.
    by_reason: dict[Reason, int]
    has_more: bool
    now: datetime


_LOCK_FIELDS = [field.name for field in fields(LockRow)]
_STUCK_FIELDS = [field.name for field in fields(StuckLock) if field.name != "lock"]


def inbox(*, space: Space, reason: str = "", snoozed: bool = False, page: int = 1, limit: int) -> Inbox:
    """The stuck locks of a space, for any reason or one, without those that are snoozed or only them."""
    rows = _rows(space, snoozed=snoozed, reason=reason, rows=limit + 1, skipped=(page - 1) * limit)
    counts = rows[0]
    locks = [_stuck_lock(row) for row in rows if row["id"] is not None]
    return Inbox(
        locks=locks[:limit],
        total=counts["total"],
        snoozed=counts["total_snoozed"],
        by_reason={reason: counts[f"total_{reason}"] for reason in Reason},
        has_more=len(locks) > limit,
        now=counts["counted_at"],
    )


def find_stuck(*, space: Space, lock_ids: Sequence[int]) -> dict[int, StuckLock]:
    """Those of these locks that are stuck, snoozed ones included, by id."""
    if not lock_ids:
        return {}
    rows = _rows(space, ids=list(lock_ids), rows=len(lock_ids))
    return {row["id"]: _stuck_lock(row) for row in rows if row["id"] is not None}


def store_count(*, space: Space, stuck: int) -> None:
    StuckCount.objects.update_or_create(space=space, defaults={"stuck": stuck, "counted_at": Now()})


def count_stuck() -> int:
    """Stores for every space how many of its locks are stuck, and which, for the number in the navigation, the order of
    Now and alerts."""
    held = Lock.objects.filter(space_id=OuterRef("pk"), lease_id__isnull=False)
    inboxes = {
        space.pk: inbox(space=space, limit=MAX_REMEMBERED)
        for space in Space.objects.filter(Exists(held), archived_at=None)
    }
    StuckCount.objects.exclude(space_id__in=inboxes).delete()
    StuckCount.objects.bulk_create(
        [
            StuckCount(
                space_id=space_id, stuck=counted.total, counted_at=Now(),
                lock_ids=[stuck.lock.id for stuck in counted.locks],
                fencing_tokens=[stuck.lock.fencing_token for stuck in counted.locks],
                reasons=[" ".join(stuck.reasons) for stuck in counted.locks],
            )
            for space_id, counted in inboxes.items()
        ],
        update_conflicts=True, unique_fields=["space"],
        update_fields=["stuck", "counted_at", "lock_ids", "fencing_tokens", "reasons"],
    )  # fmt: skip
    return sum(counted.total for counted in inboxes.values())


def _rows(space: Space, **parameters: Any) -> list[dict[str, Any]]:
    defaults = {
        "space_id": space.pk, "ids": None, "max_hold_seconds": space.max_hold_seconds, "min_queue": MIN_QUEUE,
        "snoozed": None, "reason": "", "skipped": 0,
    }  # fmt: skip
    return _fetch("stuck_locks", dict[str, Any], {**defaults, **parameters})


def _stuck_lock(row: dict[str, Any]) -> StuckLock:
    lock = LockRow(**{name: row[name] for name in _LOCK_FIELDS})
    return StuckLock(lock=lock, **{name: row[name] for name in _STUCK_FIELDS})
