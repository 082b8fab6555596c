"""Force-release of many locks: prepared, confirmed by a person, worked off in small transactions, stopped on demand.

A chunk of locks, their events and what is noted in the batch are one transaction, so a worker that is killed in the
middle leaves nothing half done, and whoever goes on starts at the first row without an outcome.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.db import transaction
from django.db.models import Count, Q
from django.db.models.functions import Now

from locks.engine import requests, results
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

CHUNK = 100
# A batch that no task got on with for this long was left by one that died.
STALLED = timedelta(seconds=5)
# What was prepared and never confirmed.
FORGET_PREPARED = timedelta(days=1)


@dataclass(frozen=True, kw_only=True)
class SelectedLock:
    """A lock as somebody saw it. `owner` is None if it has changed since."""

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
    """False if it was confirmed before: of two clicks the second changes nothing."""
    confirmed = BulkRelease.objects.filter(pk=batch.pk, state=BulkReleaseState.PREPARED).update(
        state=BulkReleaseState.CONFIRMED, reason=reason, lock_delay_seconds=lock_delay_seconds, confirmed_at=Now(),
        last_progress_at=Now(), requested_by_id=actor.id, requested_by_name=actor.name, address=actor.address,
        request_id=actor.request_id,
    )  # fmt: skip
    if confirmed:
        detail = {"batch": batch.pk, "locks": batch.total, "selection": batch.selection_label}
        record(EventKind.BULK_RELEASE_STARTED, actor=actor, space=batch.space, reason=reason, detail=detail)
    return bool(confirmed)


@transaction.atomic
def stop(*, batch: BulkRelease, actor: Actor) -> bool:
    """What has not been tried is left alone. False if it was over already."""
    found = BulkRelease.objects.select_for_update().filter(pk=batch.pk, state=BulkReleaseState.CONFIRMED).first()
    if found is None:
        return False
    left = found.rows.filter(outcome=None).update(outcome=ItemOutcome.NOT_ATTEMPTED)
    BulkRelease.objects.filter(pk=found.pk).update(state=BulkReleaseState.STOPPED, ended_at=Now())
    record(
        EventKind.BULK_RELEASE_STOPPED, actor=actor, space=found.space, reason=found.reason,
        detail={"batch": found.pk, "left": left, **_counts(found)},
    )  # fmt: skip
    return True


@transaction.atomic
def release_some(batch_id: int) -> bool:
    """Tries the next locks of a batch, and tells whether there is more to do. Of two that call it at once, one leaves
    it to the other."""
    batch = (
        BulkRelease.objects.select_for_update(skip_locked=True, of=("self",))
        .select_related("space")
        .filter(pk=batch_id, state=BulkReleaseState.CONFIRMED)
        .first()
    )
    if batch is None:
        return False
    tried = list(batch.rows.filter(outcome=None).order_by("position")[:CHUNK])
    if not tried:
        BulkRelease.objects.filter(pk=batch.pk).update(
            state=BulkReleaseState.FINISHED, ended_at=Now(), last_progress_at=Now()
        )
        record(
            EventKind.BULK_RELEASE_FINISHED, actor=_actor(batch), space=batch.space, reason=batch.reason,
            detail={"batch": batch.pk, **_counts(batch)},
        )  # fmt: skip
        return False
    for row, outcome in zip(tried, run(force_release([_request(batch, row) for row in tried])), strict=True):
        _note(row, outcome)
    BulkReleaseItem.objects.bulk_update(tried, ["outcome", "event_id", "current_owner"])
    BulkRelease.objects.filter(pk=batch.pk).update(last_progress_at=Now())
    return True


@transaction.atomic
def requeue_stalled() -> list[int]:
    """Batches that were confirmed but that nobody works on: their task was lost or its worker killed. Noted, so that
    the next look does not find the same ones while their new task is still queued."""
    found = BulkRelease.objects.filter(state=BulkReleaseState.CONFIRMED, last_progress_at__lt=Now() - STALLED)
    batches = list(found.select_for_update(skip_locked=True).order_by("pk").values_list("pk", flat=True)[:10])
    BulkRelease.objects.filter(pk__in=batches).update(last_progress_at=Now())
    return batches


def purge(*, days: int) -> None:
    """What was prepared and never confirmed, and what was over before the history began."""
    BulkRelease.objects.filter(state=BulkReleaseState.PREPARED, created_at__lt=Now() - FORGET_PREPARED).delete()
    BulkRelease.objects.filter(ended_at__lt=Now() - timedelta(days=days)).delete()


def _request(batch: BulkRelease, row: BulkReleaseItem) -> requests.ForceRelease:
    return requests.ForceRelease(
        digest=None,
        space_id=batch.space_id,
        actor_id=batch.requested_by_id,
        actor_name=batch.requested_by_name,
        channel=Channel.WEB.value,
        address=batch.address,
        request_id=batch.request_id,
        name=row.lock_name,
        reason=batch.reason,
        expected_fencing_token=row.fencing_token,
        lock_delay_seconds=batch.lock_delay_seconds,
        detail={"batch": batch.pk},
    )


def _note(row: BulkReleaseItem, outcome: results.ForceReleased) -> None:
    match outcome.verdict:
        case Verdict.RELEASED:
            row.outcome, row.event_id = ItemOutcome.RELEASED, outcome.event_id
        case Verdict.FENCING_MISMATCH:
            row.outcome, row.current_owner = ItemOutcome.FENCING_MISMATCH, outcome.owner
        case Verdict.NOT_HELD:
            row.outcome = ItemOutcome.NOT_HELD
        case _:
            raise AssertionError(outcome.verdict)


def _counts(batch: BulkRelease) -> dict[str, int]:
    skipped = Q(outcome__in=(ItemOutcome.FENCING_MISMATCH, ItemOutcome.NOT_HELD))
    return batch.rows.aggregate(
        released=Count("pk", filter=Q(outcome=ItemOutcome.RELEASED)), skipped=Count("pk", filter=skipped)
    )


def _actor(batch: BulkRelease) -> Actor:
    return Actor(
        kind=ActorKind.USER, id=batch.requested_by_id, name=batch.requested_by_name, channel=Channel.TASK,
        address=batch.address, request_id=batch.request_id,
    )  # fmt: skip
