"""Retention: partitions of the history are created ahead and dropped when they are old; old statistics are deleted.

Nothing here waits for a lock on the history: where one is not free at once, the step is left to the next run.
"""

from datetime import timedelta

from django.db import OperationalError, connection
from django.db.models.functions import Now
from psycopg.errors import LockNotAvailable

from locks.models import StatsContention, StatsHistogram, StatsMinute

MONTHS_AHEAD = 3


def make_partitions() -> int:
    """For this month and the next ones. Returns how many could not be created."""
    missing = 0
    for months in range(MONTHS_AHEAD + 1):
        missing += not _try("SELECT octo_event_partition((now() + %s * interval '1 month')::date)", months)
    return missing


def drop_partitions(*, days: int) -> list[str]:
    """Drops those whose events are all older than so many days, each in its own transaction."""
    dropped: list[str] = []
    while name := _try("SELECT octo_event_drop_oldest(now() - %s * interval '1 day')", days):
        dropped.append(name)
    return dropped


def drop_statistics(*, days: int) -> None:
    # The number of events of a month is kept as long as its events.
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM octo_stats_month WHERE month < (SELECT min(month) FROM octo_event_month)")
    for model in (StatsMinute, StatsHistogram, StatsContention):
        model.objects.filter(minute__lt=Now() - timedelta(days=days)).delete()


def _try(statement: str, parameter: int) -> str | None:
    """None if a lock was not free."""
    try:
        with connection.cursor() as cursor:
            cursor.execute(statement, [parameter])
            (result,) = cursor.fetchone()
    except OperationalError as error:
        if isinstance(error.__cause__, LockNotAvailable):
            return None
        raise
    return str(result) if result is not None else None
