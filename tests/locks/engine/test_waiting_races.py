"""Joining a line, leaving it and freeing the lock, each at the worst moment of another: nobody is forgotten."""

import pytest
from django.db import transaction

from locks.engine.execution import perform
from locks.engine.handing_on import leave
from locks.engine.line import retire
from locks.engine.upkeep import forget_waiters, sweep, sweep_sessions
from locks.history.verification import verify
from locks.models import Event, Lock, Waiter
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


def test_a_release_that_waited_for_somebody_to_join_hands_it_to_them(server, held, other):
    with transaction.atomic():
        server.stand(owner="a")
        release = other.waits(server.engine.release, "deploy", held.lease_id)
    assert release.result(LONGEST_WAIT).verdict == "released"
    assert [handed.owner for handed in server.pick_up()] == ["a"]


def test_who_joins_while_it_is_released_does_not_wait_for_what_is_free(server, held, other):
    with transaction.atomic():
        server.engine.release("deploy", held.lease_id)
        joins = other.waits(server.stand, owner="a")
    assert joins.result(LONGEST_WAIT).verdict == "again"


def test_a_hand_over_that_waited_for_the_second_to_join_goes_to_the_first(server, held, other):
    server.stand(owner="a")
    with transaction.atomic():
        server.stand(owner="b")
        release = other.waits(server.engine.release, "deploy", held.lease_id)
    release.result(LONGEST_WAIT)
    assert [handed.owner for handed in server.pick_up()] == ["a"]


def test_a_hand_over_passes_over_whoever_is_just_leaving(server, held, other):
    first = server.stand(owner="a")
    server.stand(owner="b")
    with transaction.atomic():
        perform(leave([first.waiter_id]))
        release = other.waits(server.engine.release, "deploy", held.lease_id)
    release.result(LONGEST_WAIT)
    assert [handed.owner for handed in server.pick_up()] == ["b"]


def test_the_last_leaves_and_another_joins_while_it_is_freed(server, held, other):
    """The snapshot of whoever frees it shows only the one that is gone."""
    first = server.stand(owner="a")
    with transaction.atomic():
        Lock.objects.select_for_update(no_key=True).get(name="deploy")
        release = other.waits(server.engine.release, "deploy", held.lease_id)
        perform(leave([first.waiter_id]))
        server.stand(owner="b")
    release.result(LONGEST_WAIT)
    assert [handed.owner for handed in server.pick_up()] == ["b"]


def test_whoever_leaves_while_it_is_handed_the_lock_gives_it_on(server, held, other):
    first = server.stand(owner="a")
    server.stand(owner="b")
    with transaction.atomic():
        server.engine.release("deploy", held.lease_id)
        leaving = other.starts(lambda: perform(leave([first.waiter_id])))
    left = leaving.result(LONGEST_WAIT)
    assert [row.verdict for row in left] == ["left"]
    assert [handed.owner for handed in server.pick_up()] == ["b"]
    assert perform(verify()).contradictions == []


def test_a_newcomer_that_waited_for_the_hand_over_is_told_held(server, held, other):
    server.stand(owner="a")
    with transaction.atomic():
        server.engine.release("deploy", held.lease_id)
        newcomer = other.starts(server.engine.acquire, "deploy", owner="newcomer")
    answer = newcomer.result(LONGEST_WAIT)
    assert (answer.verdict, answer.lease_id) == ("held", None)


def test_a_sweep_and_a_newcomer_at_once_hand_it_on_once(server, held, other):
    server.stand(owner="a")
    pass_seconds(601)
    newcomer = other.starts(server.engine.acquire, "deploy", owner="newcomer")
    perform(sweep())
    assert newcomer.result(LONGEST_WAIT).owner == "a"
    assert [handed.owner for handed in server.pick_up()] == ["a"]
    assert not Waiter.objects.exists()


def test_a_pick_up_that_waited_past_its_time_is_too_late(server, held, other):
    server.stand(owner="a")
    server.engine.release("deploy", held.lease_id)
    with transaction.atomic():
        Lock.objects.select_for_update(no_key=True).get(name="deploy")
        late = other.waits(server.pick_up)
        pass_seconds(1)
    assert [handed.verdict for handed in late.result(LONGEST_WAIT)] == ["lapsed"]


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


class TestNoCircles:
    """Whoever removes waiters without the locks of their names waits for none of them."""

    @pytest.fixture
    def two_lines(self, server):
        """Names that are free, with nobody left in line who could be handed them."""
        leases = server.engine.acquire_all(["a", "b"], ttl_seconds=600)
        yield [server.stand(row.name, seconds=-60).waiter_id for row in leases]
        assert not Waiter.objects.exists()

    def settles_both_while(self, server, other, work):
        """One name has been settled and the other is about to be, as in a batch."""
        with transaction.atomic():
            server.engine.force_release("b")
            removing = other.goes_as_far_as_it_can(work)
            server.engine.force_release("a")
        removing.result(LONGEST_WAIT)
        assert {server.engine.inspect(name).verdict for name in "ab"} == {"free"}

    def test_forgetting_waiters_and_settling_their_names(self, server, other, two_lines):
        self.settles_both_while(server, other, lambda: perform(forget_waiters()))

    def test_a_server_that_stops_and_settling_the_names_it_waits_for(self, server, other, two_lines):
        self.settles_both_while(server, other, lambda: perform(retire(server.id)))

    def test_waiters_that_leave_and_settling_their_names(self, server, other, two_lines):
        self.settles_both_while(server, other, lambda: perform(leave(two_lines)))

    def test_ending_two_sessions_at_once_that_wait_for_what_the_other_holds(self, server, other):
        """Each leaves the other's line while its own is settled."""
        engine = server.engine
        first, second = (engine.open_session().session_id for _ in range(2))
        engine.acquire("a", session_id=first)
        engine.acquire("b", session_id=second)
        server.stand("a", session_id=second)
        server.stand("b", session_id=first)
        with transaction.atomic():
            engine.end_session(first)
            ends = other.goes_as_far_as_it_can(engine.end_session, second)
        assert ends.result(LONGEST_WAIT).verdict == "ended"
        perform(sweep_sessions())
        assert {engine.inspect(name).verdict for name in "ab"} == {"free"}
        assert not Waiter.objects.exists()
        assert perform(verify()).contradictions == []
