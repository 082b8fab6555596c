"""Asking for the release of a lock: operators see it on Stuck and Now until the lease has ended."""

from datetime import timedelta
from enum import StrEnum
from pathlib import Path

from django.db import transaction
from django.db.models.functions import Now

from locks.models import EventKind, ReleaseRequest, Space
from locks.services.audit import Actor, record
from locks.services.sql_files import SqlFiles

# A person can ask for the same lock once in so many minutes.
MINUTES = 10
# A person can have so many open requests in a space.
MAX_OPEN = 20
KEPT = timedelta(days=30)

_fetch = SqlFiles(Path(__file__).parent / "sql").fetch


class Outcome(StrEnum):
    """`too_soon`: the person has asked for this lock a short time ago. `too_many`: the person has MAX_OPEN others."""

    RECORDED = "recorded"
    TOO_SOON = "too_soon"
    TOO_MANY = "too_many"


@transaction.atomic
def request_release(
    *, actor: Actor, space: Space, lock_name: str, fencing_token: int, owner: str | None, reason: str
) -> Outcome:
    parameters = {
        "space_id": space.pk, "lock_name": lock_name, "fencing_token": fencing_token, "person_id": actor.id,
        "person_name": actor.name, "reason": reason, "minutes": MINUTES, "max_open": MAX_OPEN,
    }  # fmt: skip
    (row,) = _fetch("request_release", dict, parameters)
    if (outcome := Outcome(row["outcome"])) is not Outcome.RECORDED:
        return outcome
    record(
        EventKind.RELEASE_REQUESTED,
        actor=actor,
        space=space,
        lock_name=lock_name,
        fencing_token=fencing_token,
        owner=owner,
        reason=reason,
    )
    return outcome


def purge() -> None:
    ReleaseRequest.objects.filter(requested_at__lt=Now() - KEPT).delete()
