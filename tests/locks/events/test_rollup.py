"""The cursor of the statistics: no event is counted twice, and after a failover or a restore none is left out."""

import pytest
from django.db.models import F, Sum

from locks.engine import requests
from locks.engine.execution import run
from locks.engine.operations import acquire
from locks.events.history.rollup import rollup
from locks.models import EventCursor, StatsMinute
from locks.token_format import parse
from tests.locks.events.open_transactions import wait_for_open_transactions

pytestmark = pytest.mark.usefixtures("committed")


def count_acquired(token: str, name: str) -> int:
    run(acquire([requests.Acquire(digest=parse(token).digest.hex(), name=name)]))
    wait_for_open_transactions()
    run(rollup())
    return StatsMinute.objects.aggregate(n=Sum("acquired"))["n"]


def test_a_cursor_of_another_timeline_goes_on_where_it_was(worker_token) -> None:
    assert count_acquired(worker_token, "a") == 1
    EventCursor.objects.update(timeline=F("timeline") - 1)
    assert count_acquired(worker_token, "b") == 2


def test_a_cursor_of_another_server_moves_to_the_end_of_the_history(worker_token) -> None:
    assert count_acquired(worker_token, "a") == 1
    EventCursor.objects.update(timeline=F("timeline") - 1, commit_position=2**60)
    assert count_acquired(worker_token, "b") == 1
    assert count_acquired(worker_token, "c") == 2


def test_a_cursor_does_not_move_back(worker_token) -> None:
    """Another rollup, whose snapshot was taken later, may have moved it."""
    assert count_acquired(worker_token, "a") == 1
    # Transaction ids are of the whole server: other tests must not use up as many.
    EventCursor.objects.update(commit_position=F("commit_position") + 2**40)
    moved = EventCursor.objects.get().commit_position
    assert count_acquired(worker_token, "b") == 1
    assert EventCursor.objects.get().commit_position == moved
