"""How long things are kept: partitions of the history are made ahead and dropped when they are old, statistics too.

Nothing here waits for a lock on the history: what cannot be had at once is left to the next run.
"""

from datetime import timedelta

from django.db import OperationalError, connection
from django.db.models.functions import Now
from psycopg.errors import LockNotAvailable

from locks.models import StatsContention, StatsHistogram, StatsMinute

MONTHS_AHEAD = 3


def make_partitions() -> int:
    """This month's and the next ones'. Tells how many could not be had."""
    missed = 0
    for months in range(MONTHS_AHEAD + 1):
        missed += not _done("SELECT octo_event_partition((now() + %s * interval '1 month')::date)", months)
    return missed


def drop_partitions(*, days: int) -> list[str]:
    """Those that have only events older than so many days, each in a transaction of its own."""
    dropped: list[str] = []
    while name := _done("SELECT octo_event_drop_oldest(now() - %s * interval '1 day')", days):
        dropped.append(name)
    return dropped


def drop_statistics(*, days: int) -> None:
    for model in (StatsMinute, StatsHistogram, StatsContention):
        model.objects.filter(minute__lt=Now() - timedelta(days=days)).delete()


def _done(statement: str, parameter: int) -> str | None:
    try:
        with connection.cursor() as cursor:
            cursor.execute(statement, [parameter])
            (result,) = cursor.fetchone()
    except OperationalError as error:
        if isinstance(error.__cause__, LockNotAvailable):
            return None
        raise
    return str(result) if result is not None else None
