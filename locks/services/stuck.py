"""Locks that need attention: the query for them, and the counts shown in the navigation."""

from pathlib import Path
from typing import Any

from django.db import connection
from django.db.models import Exists, OuterRef
from django.db.models.functions import Now

from locks.models import Lock, Space, StuckCount

MANY_WAITERS = 5
_STUCK = Path(__file__).with_suffix(".sql").read_text()


def stuck_rows(
    *, space: Space, limit: int, offset: int = 0, snoozed: bool = False, reason: str = ""
) -> list[dict[str, Any]]:
    """Rows of stuck.sql: at least one, which has the counts."""
    parameters = {
        "space_id": space.pk,
        "max_hold_seconds": space.max_hold_seconds,
        "many_waiters": MANY_WAITERS,
        "snoozed": snoozed,
        "reason": reason,
        "rows": limit,
        "skipped": offset,
    }
    with connection.cursor() as cursor:
        cursor.execute(_STUCK, parameters)
        columns = [column.name for column in cursor.description or ()]
        return [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]


def count_stuck() -> int:
    """Stores the number of stuck locks of every space, and returns their sum."""
    held = Lock.objects.filter(space_id=OuterRef("pk"), lease_id__isnull=False)
    counts: dict[int, int] = {
        space.pk: stuck_rows(space=space, limit=1)[0]["all_stuck"]
        for space in Space.objects.filter(Exists(held), archived_at=None)
    }
    StuckCount.objects.exclude(space_id__in=counts).delete()
    StuckCount.objects.bulk_create(
        [StuckCount(space_id=space_id, stuck=number, counted_at=Now()) for space_id, number in counts.items()],
        update_conflicts=True,
        unique_fields=["space"],
        update_fields=["stuck", "counted_at"],
    )
    return sum(counts.values())
