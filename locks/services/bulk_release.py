"""Force-release of many locks: prepared, confirmed by a user, released in small transactions, stopped on demand.

The locks of a chunk, their events and the outcomes are one transaction. After a worker was killed, the next one starts
at the first item without an outcome.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.db import transaction
from django.db.models import Count, Q
from django.db.models.functions import Now

from locks.engine import results
from locks.engine.execution import run
from locks.engine.operations import force_release
from locks.engine.verdicts import Verdict
from locks.models import (
    ActorKind,
    BulkRelease,
    BulkReleaseItem,
    BulkReleaseState,
    Channel,
    EventKind,
    ItemOutcome,
    Space,
    User,
)
from locks.services.audit import Actor, record
from locks.services.force_release import authorized_by, force_release_request

CHUNK_SIZE = 100
# Without progress for this long, the task of a batch counts as lost.
STALLED_AFTER = timedelta(seconds=5)
# Batches that were never confirmed are purged after this time.
PREPARED_RETENTION = timedelta(days=1)


@dataclass(frozen=True, kw_only=True)
class SelectedLock:
    """A lock as it was shown when it was selected. `owner` is None if it has changed since."""

    name: str
    fencing_token: int
    owner: str | None


@transaction.atomic
def prepare(*, space: Space, user: User, selection_label: str, locks: Sequence[SelectedLock]) -> BulkRelease:
    batch = BulkRelease.objects.create(
        space=space,
        selection_label=selection_label,
        total=len(locks),
        requested_by=user,
        requested_by_name=user.get_username(),
    )
    BulkReleaseItem.objects.bulk_create(
        [
            BulkReleaseItem(
                batch=batch, position=position, lock_name=lock.name, fencing_token=lock.fencing_token, owner=lock.owner
            )
            for position, lock in enumerate(locks, start=1)
        ],
        batch_size=2_000,
    )
    return batch


@transaction.atomic
def confirm(*, batch: BulkRelease, actor: Actor, reason: str, lock_delay_seconds: int) -> bool:
    """False if it was confirmed before, as by the second click of two."""
    confirmed = BulkRelease.objects.filter(pk=batch.pk, state=BulkReleaseState.PREPARED).update(
        state=BulkReleaseState.CONFIRMED,
        reason=reason,
        lock_delay_seconds=lock_delay_seconds,
        confirmed_at=Now(),
        last_progress_at=Now(),
        requested_by_id=actor.id,
        requested_by_name=actor.name,
        address=actor.address,
        request_id=actor.request_id,
    )
    if confirmed:
        detail = {"batch": batch.pk, "locks": batch.total, "selection": batch.selection_label}
        record(EventKind.BULK_RELEASE_STARTED, actor=actor, space=batch.space, reason=reason, detail=detail)
    return bool(confirmed)


@transaction.atomic
def stop(*, batch: BulkRelease, actor: Actor) -> bool:
    """Locks that were not tried yet stay held. False if the batch has ended already."""
    running = BulkRelease.objects.select_for_update().filter(pk=batch.pk, state=BulkReleaseState.CONFIRMED).first()
    if running is None:
        return False
    left = running.rows.filter(outcome=None).update(outcome=ItemOutcome.NOT_ATTEMPTED)
    BulkRelease.objects.filter(pk=running.pk).update(state=BulkReleaseState.STOPPED, ended_at=Now())
    detail = {"batch": running.pk, "left": left, **_counts(running)}
    record(EventKind.BULK_RELEASE_STOPPED, actor=actor, space=running.space, reason=running.reason, detail=detail)
    return True


@transaction.atomic
def release_next_chunk(batch_id: int) -> bool:
    """False if the batch has ended, or if another worker is releasing it now."""
    batch = (
        BulkRelease.objects.select_for_update(skip_locked=True, of=("self",))
        .select_related("space")
        .filter(pk=batch_id, state=BulkReleaseState.CONFIRMED)
        .first()
    )
    if batch is None:
        return False
    items = list(batch.rows.filter(outcome=None).order_by("position")[:CHUNK_SIZE])
    if not items:
        BulkRelease.objects.filter(pk=batch.pk).update(
            state=BulkReleaseState.FINISHED, ended_at=Now(), last_progress_at=Now()
        )
        actor, detail = _requested_by(batch, Channel.TASK), {"batch": batch.pk, **_counts(batch)}
        record(EventKind.BULK_RELEASE_FINISHED, actor=actor, space=batch.space, reason=batch.reason, detail=detail)
        return False
    caller = authorized_by(_requested_by(batch, Channel.WEB), space_id=batch.space_id)
    requests = [
        force_release_request(
            caller,
            name=item.lock_name,
            reason=batch.reason,
            fencing_token=item.fencing_token,
            lock_delay_seconds=batch.lock_delay_seconds,
            detail={"batch": batch.pk},
        )
        for item in items
    ]
    for item, result in zip(items, run(force_release(requests)), strict=True):
        _set_outcome(item, result)
    BulkReleaseItem.objects.bulk_update(items, ["outcome", "event_id", "current_owner"])
    BulkRelease.objects.filter(pk=batch.pk).update(last_progress_at=Now())
    return True


@transaction.atomic
def requeue_stalled() -> list[int]:
    """Confirmed batches whose task was lost. They count as in progress again, so that the next call does not return
    them while their new task is still queued."""
    stalled = BulkRelease.objects.filter(state=BulkReleaseState.CONFIRMED, last_progress_at__lt=Now() - STALLED_AFTER)
    batches = list(stalled.select_for_update(skip_locked=True).order_by("pk").values_list("pk", flat=True)[:10])
    BulkRelease.objects.filter(pk__in=batches).update(last_progress_at=Now())
    return batches


def purge(*, days: int) -> None:
    """Batches that were never confirmed, and those that ended before the audit history begins."""
    BulkRelease.objects.filter(state=BulkReleaseState.PREPARED, created_at__lt=Now() - PREPARED_RETENTION).delete()
    BulkRelease.objects.filter(ended_at__lt=Now() - timedelta(days=days)).delete()


def _set_outcome(item: BulkReleaseItem, result: results.ForceReleased) -> None:
    match result.verdict:
        case Verdict.RELEASED:
            item.outcome, item.event_id = ItemOutcome.RELEASED, result.event_id
        case Verdict.FENCING_MISMATCH:
            item.outcome, item.current_owner = ItemOutcome.FENCING_MISMATCH, result.owner
        case Verdict.NOT_HELD:
            item.outcome = ItemOutcome.NOT_HELD
        case _:
            raise AssertionError(result.verdict)


def _counts(batch: BulkRelease) -> dict[str, int]:
    skipped = Q(outcome__in=(ItemOutcome.FENCING_MISMATCH, ItemOutcome.NOT_HELD))
    return batch.rows.aggregate(
        released=Count("pk", filter=Q(outcome=ItemOutcome.RELEASED)), skipped=Count("pk", filter=skipped)
    )


def _requested_by(batch: BulkRelease, channel: Channel) -> Actor:
    return Actor(
        kind=ActorKind.USER,
        id=batch.requested_by_id,
        name=batch.requested_by_name,
        channel=channel,
        address=batch.address,
        request_id=batch.request_id,
    )
