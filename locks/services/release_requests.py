"""Asking for the release of a lock: operators see it on Stuck and Now until the lease has ended."""

from datetime import timedelta
from pathlib import Path

from django.db import transaction
from django.db.models.functions import Now

from locks.models import EventKind, ReleaseRequest, Space
from locks.services.audit import Actor, record
from locks.services.sql_files import SqlFiles

# A person can ask for the same lock once in so many minutes.
MINUTES = 10
KEPT = timedelta(days=30)

_fetch = SqlFiles(Path(__file__).parent / "sql").fetch


@transaction.atomic
def request_release(
    *, actor: Actor, space: Space, lock_name: str, fencing_token: int, owner: str | None, reason: str
) -> bool:
    """False if the person has asked for this lock a short time ago."""
    parameters = {
        "space_id": space.pk, "lock_name": lock_name, "fencing_token": fencing_token, "person_id": actor.id,
        "person_name": actor.name, "reason": reason, "minutes": MINUTES,
    }  # fmt: skip
    if not _fetch("request_release", dict, parameters):
        return False
    record(
        EventKind.RELEASE_REQUESTED,
        actor=actor,
        space=space,
        lock_name=lock_name,
        fencing_token=fencing_token,
        owner=owner,
        reason=reason,
    )
    return True


def purge() -> None:
    ReleaseRequest.objects.filter(requested_at__lt=Now() - KEPT).delete()
