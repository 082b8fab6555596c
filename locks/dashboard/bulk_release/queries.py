"""Bulk release: the preview, the progress and the result of each lock."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, QuerySet
from django.db.models.functions import Now
from django.http import QueryDict

from locks.dashboard.database import fetch
from locks.models import BulkRelease, BulkReleaseItem, BulkReleaseState, Heartbeat, ItemOutcome, Space
from locks.system_state.counters import MAX_WORKER_SILENCE

ROWS = 100
MAX_BATCHES = 50

OUTCOME_FILTERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "": ("All", ()),
    "released": ("Released", (ItemOutcome.RELEASED,)),
    "skipped": ("Skipped", (ItemOutcome.FENCING_MISMATCH, ItemOutcome.NOT_HELD)),
    "not-attempted": ("Not attempted", (ItemOutcome.NOT_ATTEMPTED,)),
}


@dataclass(frozen=True, kw_only=True)
class OwnerShare:
    """The effect of a release on an owner; without one, on all owners."""

    owner: str | None
    locks: int
    releasable: int
    heartbeating: int
    # By people, who renew nothing.
    reserved: int
    last_heartbeat_at: datetime | None
    owners: int
    now: datetime

    @property
    def skipped(self) -> int:
        return self.locks - self.releasable


@dataclass(frozen=True, kw_only=True)
class PreviewRow:
    position: int
    lock_name: str
    fencing_token: int
    owner: str | None
    is_current: bool | None
    current_owner: str | None
    acquired_at: datetime | None
    last_heartbeat_at: datetime | None
    waiters: int
    now: datetime


@dataclass(frozen=True, kw_only=True)
class Preview:
    total: OwnerShare
    owners: list[OwnerShare]
    rows: list[PreviewRow]
    next_after: int | None


@dataclass(frozen=True, kw_only=True)
class Progress:
    total: int
    released: int
    fencing_mismatch: int
    not_held: int
    not_attempted: int

    @property
    def skipped(self) -> int:
        return self.fencing_mismatch + self.not_held

    @property
    def tried(self) -> int:
        return self.released + self.skipped

    @property
    def pending(self) -> int:
        return self.total - self.tried - self.not_attempted

    @property
    def segments(self) -> list[tuple[str, float, float]]:
        """Of a bar that is a hundred wide: outcome, start, width."""
        start, segments = 0.0, []
        outcomes = (("released", self.released), ("skipped", self.skipped), ("not-attempted", self.not_attempted))
        for name, number in outcomes:
            width = 100 * number / (self.total or 1)
            segments.append((name, round(start, 2), round(width, 2)))
            start += width
        return segments


@dataclass(frozen=True, kw_only=True)
class Results:
    rows: list[BulkReleaseItem]
    show: str
    next_after: int | None


def find_batch(*, space: Space, number: int) -> BulkRelease | None:
    return BulkRelease.objects.select_related("space__team").filter(space=space, pk=number).first()


def recent_batches(*, space: Space) -> QuerySet[BulkRelease]:
    return (
        BulkRelease.objects.filter(space=space).exclude(state=BulkReleaseState.PREPARED).order_by("-id")[:MAX_BATCHES]
    )


def preview(*, batch: BulkRelease, after: int) -> Preview:
    parameters = {"batch_id": batch.pk, "space_id": batch.space_id}
    shares = fetch("bulk_release/preview", OwnerShare, parameters)
    rows = fetch("bulk_release/bulk_release_items", PreviewRow, {**parameters, "after": after, "rows": ROWS + 1})
    return Preview(
        total=shares[0],
        owners=shares[1:],
        rows=rows[:ROWS],
        next_after=rows[ROWS - 1].position if len(rows) > ROWS else None,
    )


def progress(*, batch: BulkRelease) -> Progress:
    counted = batch.rows.exclude(outcome=None).values_list("outcome").annotate(number=Count("pk"))
    numbers = {str(outcome): number for outcome, number in counted}
    return Progress(total=batch.total, **{outcome.value: numbers.get(outcome.value, 0) for outcome in ItemOutcome})


def results(*, batch: BulkRelease, query: QueryDict) -> Results:
    show = query.get("show", "")
    show = show if show in OUTCOME_FILTERS else ""
    items = batch.rows.exclude(outcome=None)
    if outcomes := OUTCOME_FILTERS[show][1]:
        items = items.filter(outcome__in=outcomes)
    listed = list(items.filter(position__gt=parse_int(query, "after")).order_by("position")[: ROWS + 1])
    next_after = listed[ROWS - 1].position if len(listed) > ROWS else None
    return Results(rows=listed[:ROWS], show=show, next_after=next_after)


def worker_is_alive() -> bool:
    return Heartbeat.objects.filter(name__startswith="worker@", seen_at__gt=Now() - MAX_WORKER_SILENCE).exists()


def parse_int(query: QueryDict, name: str) -> int:
    text = query.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
