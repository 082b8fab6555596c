"""Statistics of a space over any window of time, as charts need them."""

from collections.abc import Sequence
from datetime import datetime

from django.db.models import QuerySet, Sum

from locks.events.history.histogram import percentile
from locks.models import Measure, StatsContention, StatsHistogram, StatsMinute


def by_minute(space_id: int, *, since: datetime, until: datetime) -> QuerySet[StatsMinute]:
    """The minutes in which something happened, the earliest first."""
    return StatsMinute.objects.filter(space_id=space_id, minute__gte=since, minute__lt=until).order_by("minute")


def percentiles(
    space_id: int, measure: Measure, *, since: datetime, until: datetime, shares: Sequence[float] = (0.5, 0.9, 0.99)
) -> dict[float, float | None]:
    """How many milliseconds that share of the holds or waits stayed below."""
    counts = dict(
        StatsHistogram.objects.filter(space_id=space_id, measure=measure, minute__gte=since, minute__lt=until)
        .values("bucket")
        .annotate(total=Sum("count"))
        .values_list("bucket", "total")
    )
    return {share: percentile(counts, share) for share in shares}


def most_contended(space_id: int, *, since: datetime, until: datetime, limit: int = 10) -> list[tuple[str, int]]:
    """The names that were asked for in vain most often, and how often."""
    return list(
        StatsContention.objects.filter(space_id=space_id, minute__gte=since, minute__lt=until)
        .values("name")
        .annotate(total=Sum("refused"))
        .order_by("-total", "name")
        .values_list("name", "total")[:limit]
    )
