"""Waiters that come or go at the very moment when a lock is handed on."""

import pytest
from django.db import transaction

from locks.engine.execution import perform
from locks.engine.handing_on import leave
from locks.models import Event, Waiter
from tests.locks.engine.meanwhile import LONGEST_WAIT, meanwhile
from tests.locks.engine.passing_time import pass_seconds
from tests.locks.engine.test_waiting import Waiting

pytestmark = pytest.mark.usefixtures("committed")


@pytest.fixture
def other(committed):
    with meanwhile() as other:
        yield other


@pytest.fixture
def server(engine):
    return Waiting(engine)


@pytest.fixture
def held(engine):
    return engine.acquire("deploy", owner="holder", ttl_seconds=600)


def test_who_comes_too_late_does_not_learn_whose_lease_it_is_now(engine, other, server, held):
    server.stand(owner="late")
    engine.release("deploy", held.lease_id)
    pass_seconds(1)
    with transaction.atomic():
        newcomer = engine.acquire("deploy", owner="newcomer", ttl_seconds=600)
        late = other.waits(server.pick_up)
    assert newcomer.verdict == "acquired"
    (lapsed,) = late.result(LONGEST_WAIT)
    assert (lapsed.verdict, lapsed.lease_id) == ("lapsed", None)


def test_who_leaves_while_it_is_handed_the_lock_gives_it_on(engine, other, server, held):
    leaver = server.stand(owner="a").waiter_id
    with transaction.atomic():
        engine.release("deploy", held.lease_id)
        leaves = other.waits(lambda: perform(leave([leaver])))
    (left,) = leaves.result(LONGEST_WAIT)
    assert left.verdict == "left"
    assert engine.inspect("deploy").verdict == "free"
    assert Event.objects.get(owner="a", kind="released").reason == "whoever waited for it had gone"
    assert not Waiter.objects.exists()
