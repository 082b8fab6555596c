"""The names and events of a space are counted once a minute, for its limits and its pages."""

from datetime import date

import pytest

from locks import tasks
from locks.events.history.retention import drop_statistics
from locks.models import Event, Space, SpaceUsage, StatsMonth
from tests.locks.dashboard.conftest import Worker
from tests.polling import until

pytestmark = pytest.mark.usefixtures("committed")


def counted(space: Space) -> tuple[int, int]:
    tasks.rollup()
    usage = SpaceUsage.objects.get(space=space)
    return usage.names, usage.events


def test_names_and_events_are_counted_for_each_space(space, red_space, worker_token):
    for used in (space, red_space):
        SpaceUsage.objects.create(space=used)
    Worker(worker_token).takes("a")
    Worker(worker_token).takes("b")
    written = Event.objects.filter(space_id=space.pk).count()

    def are_counted() -> bool:
        SpaceUsage.objects.update(storage_counted_at=None)
        return counted(space) == (2, written)

    # Readers of the history stop before the oldest transaction that is still running, in any database of the server.
    until(are_counted)
    assert counted(red_space) == (0, 0)


def test_events_that_retention_has_dropped_do_not_count(space):
    SpaceUsage.objects.create(space=space)
    StatsMonth.objects.create(space_id=space.pk, month=date(2020, 1, 1), events=7)
    assert counted(space)[1] == 7
    drop_statistics(days=90)
    SpaceUsage.objects.update(storage_counted_at=None)
    assert counted(space)[1] == 0
