"""Leaving a stuck lock out of the inbox for a while, on the record."""

from datetime import timedelta

from django.db import transaction
from django.db.models.functions import Now

from locks.models import EventKind, Snooze, Space
from locks.services.audit import Actor, record


@transaction.atomic
def snooze(
    *, space: Space, lock_name: str, fencing_token: int, owner: str | None, hours: int, note: str, actor: Actor
) -> None:
    """Snoozing again replaces the note and the time."""
    Snooze.objects.update_or_create(
        space=space,
        lock_name=lock_name,
        fencing_token=fencing_token,
        defaults={
            "until": Now() + timedelta(hours=hours), "note": note, "person_id": actor.id, "person_name": actor.name,
            "created_at": Now(),
        },
    )  # fmt: skip
    record(
        EventKind.SNOOZED, actor=actor, space=space, lock_name=lock_name, fencing_token=fencing_token, owner=owner,
        reason=note, detail={"hours": hours},
    )  # fmt: skip


@transaction.atomic
def end_snooze(*, space: Space, lock_name: str, fencing_token: int, actor: Actor) -> bool:
    """False if there was none."""
    ended, _by_model = Snooze.objects.filter(space=space, lock_name=lock_name, fencing_token=fencing_token).delete()
    if ended:
        record(
            EventKind.SNOOZE_ENDED, actor=actor, space=space, lock_name=lock_name, fencing_token=fencing_token
        )  # fmt: skip
    return bool(ended)


def purge() -> None:
    Snooze.objects.filter(until__lt=Now() - timedelta(days=1)).delete()
