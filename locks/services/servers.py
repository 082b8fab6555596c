"""Which servers run on this database: they share its rate limits."""

from datetime import timedelta

from django.db.models import Sum
from django.db.models.functions import Now

from locks.models import Server

REPORT_SECONDS = 2.0
# A server that has not reported for this long has ended.
LIVE_SECONDS = 10


def report(name: str, *, processes: int) -> int:
    """Records that this server runs, and returns how many processes all live servers have together."""
    Server.objects.bulk_create(
        [Server(name=name, processes=processes, seen_at=Now())],
        update_conflicts=True,
        unique_fields=["name"],
        update_fields=["processes", "seen_at"],
    )
    live = Server.objects.filter(seen_at__gt=Now() - timedelta(seconds=LIVE_SECONDS))
    return live.aggregate(total=Sum("processes"))["total"] or processes


def purge(*, days: int) -> None:
    Server.objects.filter(seen_at__lt=Now() - timedelta(days=days)).delete()
