"""Freezes: an operator closes a prefix, or a whole space, to new claims. Each has its events in the history.

The engine's statements enforce them; engine/sql/functions/freeze.sql says how.
"""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.db import transaction
from django.db.models import Max, QuerySet
from django.db.models.functions import Now

from locks.engine.drain import wait_for_statements
from locks.engine.names import canonical_filter
from locks.models import EventKind, Freeze, Lock, Space
from locks.services import clock
from locks.services.audit import Actor, record
from locks.services.force_release import live_leases
from locks.services.sql_files import SqlFiles

MAX_FREEZES_PER_SPACE = 100
# Longer than an acquire waits for a locked row.
MAX_DRAIN_SECONDS = 6.0
MAX_FREEZE = timedelta(days=30)
# What a freeze would touch is counted up to this.
MAX_COUNT = 10_000

_fetch = SqlFiles(Path(__file__).parent / "sql").fetch


class TooManyFreezes(Exception):
    """The space has MAX_FREEZES_PER_SPACE already."""


class NotFrozen(Exception):
    """There is no such freeze in the space, or it has ended."""


@dataclass(frozen=True, kw_only=True)
class Preview:
    """What a freeze would touch now, each up to MAX_COUNT."""

    held: int
    free: int


def in_force(space: Space) -> QuerySet[Freeze]:
    """The one that ends last comes first."""
    return Freeze.objects.filter(space=space, ended_at=None, until__gt=Now()).order_by("-until", "-pk")


def preview(*, space: Space, prefix: str) -> Preview:
    names = Lock.objects.filter(space=space, name__startswith=_canonical(space, prefix))
    held = live_leases(space=space).filter(pk__in=names)
    return Preview(
        held=held[:MAX_COUNT].count(),
        free=names.exclude(pk__in=live_leases(space=space).values("pk"))[:MAX_COUNT].count(),
    )


def freeze(*, actor: Actor, space: Space, prefix: str, reason: str, duration: timedelta) -> Freeze:
    """After it returns, no claim of the names is granted that does not have its lease already: it waits for the
    statements that began before, for longer than one of them may wait for a lock. Raises TooManyFreezes."""
    with transaction.atomic():
        locked = Space.objects.select_for_update(no_key=True).get(pk=space.pk)
        if in_force(space).count() >= MAX_FREEZES_PER_SPACE:
            raise TooManyFreezes
        added = Freeze.objects.create(
            space=space, prefix=_canonical(space, prefix), reason=reason, until=clock.now() + duration,
            actor_kind=actor.kind, actor_id=actor.id, actor_name=actor.name,
        )  # fmt: skip
        added.refresh_from_db()
        _set_frozen_until(locked)
        record(EventKind.FROZEN, actor=actor, space=space, reason=reason, detail=_detail(added))
    wait_for_statements(clock.now(), max_seconds=MAX_DRAIN_SECONDS)
    return added


@transaction.atomic
def lift(*, actor: Actor, space: Space, freeze_id: int) -> Freeze:
    """Requests that wait are handed their locks within a heartbeat of their server. Raises NotFrozen."""
    locked = Space.objects.select_for_update(no_key=True).get(pk=space.pk)
    lifted = in_force(space).filter(pk=freeze_id).first()
    # Its end may be recorded at this moment.
    if lifted is None or not Freeze.objects.filter(pk=lifted.pk, ended_at=None).update(ended_at=clock.ClockTimestamp()):
        raise NotFrozen
    _set_frozen_until(locked)
    record(EventKind.UNFROZEN, actor=actor, space=space, reason=lifted.reason, detail=_detail(lifted))
    return lifted


def record_ends() -> int:
    """Freezes end by the clock; this records it. Returns how many had ended."""
    return len(_fetch("end_freezes", dict, {}))


def _set_frozen_until(space: Space) -> None:
    latest = in_force(space).order_by().aggregate(Max("until"))["until__max"]
    Space.objects.filter(pk=space.pk).update(frozen_until=latest)


def _detail(freeze: Freeze) -> dict[str, Any]:
    return {"freeze": freeze.pk, "prefix": freeze.prefix, "until": freeze.until.isoformat()}


def _canonical(space: Space, prefix: str) -> str:
    return canonical_filter(prefix, lambda: space.namespaces, is_prefix=True)
