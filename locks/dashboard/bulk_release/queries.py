"""A bulk release as its page shows it: what would happen, how far it is, what became of each lock."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, QuerySet
from django.db.models.functions import Now
from django.http import QueryDict

from locks.dashboard.database import fetch
from locks.models import BulkRelease, BulkReleaseItem, BulkReleaseState, Heartbeat, ItemOutcome, Space

ROWS = 100
BATCHES = 50
# A worker reports every five seconds.
WORKER_IS_SILENT = timedelta(seconds=20)

SHOWS: dict[str, tuple[str, tuple[str, ...]]] = {
    "": ("All", ()),
    "released": ("Released", (ItemOutcome.RELEASED,)),
    "skipped": ("Skipped", (ItemOutcome.FENCING_MISMATCH, ItemOutcome.NOT_HELD)),
    "left": ("Left alone", (ItemOutcome.NOT_ATTEMPTED,)),
}


@dataclass(frozen=True, kw_only=True)
class OwnerShare:
    """What a release would take from an owner; without one, from all of them."""

    owner: str | None
    locks: int
    still: int
    beating: int
    last_heartbeat_at: datetime | None
    owners: int
    now: datetime

    @property
    def gone(self) -> int:
        return self.locks - self.still


@dataclass(frozen=True, kw_only=True)
class PreviewRow:
    position: int
    lock_name: str
    fencing_token: int
    owner: str | None
    still: bool | None
    owner_now: str | None
    acquired_at: datetime | None
    last_heartbeat_at: datetime | None
    waiters: int
    now: datetime


@dataclass(frozen=True, kw_only=True)
class Preview:
    all: OwnerShare
    owners: list[OwnerShare]
    rows: list[PreviewRow]
    next: int | None


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
    def parts(self) -> list[tuple[str, float, float]]:
        """Of a bar that is a hundred wide: outcome, where it begins, how wide it is."""
        whole, begin, parts = self.total or 1, 0.0, []
        for name, number in (("released", self.released), ("skipped", self.skipped), ("left", self.not_attempted)):
            width = 100 * number / whole
            parts.append((name, round(begin, 2), round(width, 2)))
            begin += width
        return parts


@dataclass(frozen=True, kw_only=True)
class Results:
    rows: list[BulkReleaseItem]
    show: str
    next: str | None


def find_batch(*, space: Space, number: int) -> BulkRelease | None:
    return BulkRelease.objects.select_related("space__team").filter(space=space, pk=number).first()


def latest_batches(*, space: Space) -> QuerySet[BulkRelease]:
    return BulkRelease.objects.filter(space=space).exclude(state=BulkReleaseState.PREPARED).order_by("-id")[:BATCHES]


def preview(*, batch: BulkRelease, after: int) -> Preview:
    asked = {"batch_id": batch.pk, "space_id": batch.space_id}
    shares = fetch("bulk_release/preview", OwnerShare, asked)
    listed = fetch("bulk_release/bulk_release_items", PreviewRow, {**asked, "after": after, "rows": ROWS + 1})
    return Preview(
        all=shares[0],
        owners=shares[1:],
        rows=listed[:ROWS],
        next=listed[ROWS - 1].position if len(listed) > ROWS else None,
    )


def progress(*, batch: BulkRelease) -> Progress:
    counted = batch.rows.exclude(outcome=None).values_list("outcome").annotate(number=Count("pk"))
    numbers = {str(outcome): number for outcome, number in counted}
    return Progress(total=batch.total, **{outcome.value: numbers.get(outcome.value, 0) for outcome in ItemOutcome})


def results(*, batch: BulkRelease, query: QueryDict) -> Results:
    show = query.get("show", "")
    show = show if show in SHOWS else ""
    found = batch.rows.exclude(outcome=None)
    if outcomes := SHOWS[show][1]:
        found = found.filter(outcome__in=outcomes)
    listed = list(found.filter(position__gt=parse_int(query, "after")).order_by("position")[: ROWS + 1])
    more = f"?show={show}&after={listed[ROWS - 1].position}" if len(listed) > ROWS else None
    return Results(rows=listed[:ROWS], show=show, next=more)


def worker_is_alive() -> bool:
    return Heartbeat.objects.filter(name__startswith="worker@", seen_at__gt=Now() - WORKER_IS_SILENT).exists()


def parse_int(query: QueryDict, name: str) -> int:
    text = query.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
