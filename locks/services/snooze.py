"""Snoozing: hides a stuck lock from the inbox for a while, with an audit event."""

from datetime import timedelta

from django.db import transaction
from django.db.models.functions import Now

from locks.models import EventKind, Snooze, Space
from locks.services.audit import Actor, record


@transaction.atomic
def snooze(
    *, space: Space, lock_name: str, fencing_token: int, owner: str | None, hours: int, note: str, actor: Actor
) -> None:
    """Replaces an earlier snooze of the same lease."""
    Snooze.objects.update_or_create(
        space=space,
        lock_name=lock_name,
        fencing_token=fencing_token,
        defaults={
            "until": Now() + timedelta(hours=hours),
            "note": note,
            "person_id": actor.id,
            "person_name": actor.name,
            "created_at": Now(),
        },
    )
    record(
        EventKind.SNOOZED,
        actor=actor,
        space=space,
        lock_name=lock_name,
        fencing_token=fencing_token,
        owner=owner,
        reason=note,
        detail={"hours": hours},
    )


@transaction.atomic
def end_snooze(*, space: Space, lock_name: str, fencing_token: int, actor: Actor) -> bool:
    """False if the lock was not snoozed."""
    ended, _by_model = Snooze.objects.filter(space=space, lock_name=lock_name, fencing_token=fencing_token).delete()
    if ended:
        record(EventKind.SNOOZE_ENDED, actor=actor, space=space, lock_name=lock_name, fencing_token=fencing_token)
    return bool(ended)


def purge() -> None:
    Snooze.objects.filter(until__lt=Now() - timedelta(days=1)).delete()
