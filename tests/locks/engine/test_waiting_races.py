"""Joining a line, leaving it and freeing the lock, each at the worst moment of another: nobody is forgotten."""

from uuid import uuid4

import pytest
from django.db import transaction

from locks.engine.execution import run
from locks.engine.handover import dequeue
from locks.engine.maintenance import purge_waiters, sweep, sweep_sessions
from locks.engine.handover import delete_server, enqueue, hand_over_free_names, server_heartbeat
from locks.events.history.verification import verify
from locks.models import Event, Lock, Waiter
from tests.locks.engine.concurrent_session import MAX_WAIT, meanwhile
from tests.locks.engine.test_waiting import Waiting
from tests.locks.engine.time_travel import pass_seconds

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
    assert release.result(MAX_WAIT).verdict == "released"
    assert [handed.owner for handed in server.claim_handovers()] == ["a"]


def test_who_joins_while_it_is_released_has_no_place_yet_and_does_not_wait_for_what_is_free(server, held, other):
    with transaction.atomic():
        server.engine.release("deploy", held.lease_id)
        joins = other.starts(server.stand, owner="a").result(MAX_WAIT)
    assert (joins.verdict, joins.waiter_id) == ("row_locked", None)
    assert server.stand(owner="a", queue_seq=joins.queue_seq).verdict == "retry"
    assert not Waiter.objects.exists()


def test_whoever_found_the_lock_busy_stands_where_it_arrived(server, held, other):
    with transaction.atomic():
        Lock.objects.select_for_update(no_key=True).get(name="deploy")
        first = other.starts(server.stand, owner="a").result(MAX_WAIT)
    assert server.stand(owner="b").position == 1
    assert server.stand(owner="a", queue_seq=first.queue_seq).position == 1
    server.engine.release("deploy", held.lease_id)
    assert [handed.owner for handed in server.claim_handovers()] == ["a"]


def test_a_name_that_somebody_keeps_locked_does_not_keep_others_of_the_batch_from_their_places(server, held, other):
    server.engine.acquire("other", ttl_seconds=600)
    waits = [server.wait(name, owner="a") for name in ("deploy", "other")]
    with transaction.atomic():
        Lock.objects.select_for_update(no_key=True).get(name="deploy")
        placed = other.starts(lambda: run(enqueue(waits))).result(MAX_WAIT)
    assert [one.verdict for one in placed] == ["row_locked", "waiting"]


def test_a_name_that_somebody_keeps_locked_does_not_keep_others_from_being_settled_or_picked_up(server, held, other):
    server.engine.acquire("other", ttl_seconds=600)
    for name in ("deploy", "other"):
        server.stand(name, owner="a")
    pass_seconds(601)
    run(server_heartbeat(server.id))
    with transaction.atomic():
        Lock.objects.select_for_update(no_key=True).get(name="deploy")
        assert other.starts(lambda: run(hand_over_free_names(server.id))).result(MAX_WAIT) == 1
        assert [handed.name for handed in other.starts(server.claim_handovers).result(MAX_WAIT)] == ["other"]


def test_a_hand_over_that_waited_for_the_second_to_join_goes_to_the_first(server, held, other):
    server.stand(owner="a")
    with transaction.atomic():
        server.stand(owner="b")
        release = other.waits(server.engine.release, "deploy", held.lease_id)
    release.result(MAX_WAIT)
    assert [handed.owner for handed in server.claim_handovers()] == ["a"]


def test_a_hand_over_passes_over_whoever_is_just_leaving(server, held, other):
    first = server.stand(owner="a")
    server.stand(owner="b")
    with transaction.atomic():
        run(dequeue([first.waiter_id]))
        release = other.waits(server.engine.release, "deploy", held.lease_id)
    release.result(MAX_WAIT)
    assert [handed.owner for handed in server.claim_handovers()] == ["b"]


def test_the_last_leaves_and_another_joins_while_it_is_freed(server, held, other):
    """The snapshot of whoever frees it shows only the one that is gone."""
    first = server.stand(owner="a")
    with transaction.atomic():
        Lock.objects.select_for_update(no_key=True).get(name="deploy")
        release = other.waits(server.engine.release, "deploy", held.lease_id)
        run(dequeue([first.waiter_id]))
        server.stand(owner="b")
    release.result(MAX_WAIT)
    assert [handed.owner for handed in server.claim_handovers()] == ["b"]


def test_whoever_leaves_while_it_is_handed_the_lock_gives_it_on(server, held, other):
    first = server.stand(owner="a")
    server.stand(owner="b")
    with transaction.atomic():
        server.engine.release("deploy", held.lease_id)
        leaving = other.starts(lambda: run(dequeue([first.waiter_id])))
    left = leaving.result(MAX_WAIT)
    assert [row.verdict for row in left] == ["left"]
    assert [handed.owner for handed in server.claim_handovers()] == ["b"]
    assert run(verify()).contradictions == []


def test_a_newcomer_that_waited_for_the_hand_over_is_told_held(server, held, other):
    server.stand(owner="a")
    with transaction.atomic():
        server.engine.release("deploy", held.lease_id)
        newcomer = other.starts(server.engine.acquire, "deploy", owner="newcomer")
    answer = newcomer.result(MAX_WAIT)
    assert (answer.verdict, answer.lease_id) == ("held", None)


def test_a_sweep_and_a_newcomer_at_once_hand_it_on_once(server, held, other):
    server.stand(owner="a")
    pass_seconds(601)
    newcomer = other.starts(server.engine.acquire, "deploy", owner="newcomer")
    run(sweep())
    assert newcomer.result(MAX_WAIT).owner == "a"
    assert [handed.owner for handed in server.claim_handovers()] == ["a"]
    assert not Waiter.objects.exists()


def test_what_somebody_kept_locked_past_its_time_is_picked_up_too_late(server, held, other):
    server.stand(owner="a")
    server.engine.release("deploy", held.lease_id)
    with transaction.atomic():
        Lock.objects.select_for_update(no_key=True).get(name="deploy")
        assert other.starts(server.claim_handovers).result(MAX_WAIT) == []
        pass_seconds(1)
    assert [handed.verdict for handed in server.claim_handovers()] == ["handover_expired"]


def test_who_comes_too_late_does_not_learn_whose_lease_it_is_now(server, held):
    server.stand(owner="late")
    Waiter.objects.update(handed_lease_id=uuid4())
    (lapsed,) = server.claim_handovers()
    assert (lapsed.verdict, lapsed.lease_id) == ("handover_expired", None)


def test_who_leaves_while_it_is_handed_the_lock_gives_it_on(engine, other, server, held):
    leaver = server.stand(owner="a").waiter_id
    with transaction.atomic():
        engine.release("deploy", held.lease_id)
        leaves = other.waits(lambda: run(dequeue([leaver])))
    (left,) = leaves.result(MAX_WAIT)
    assert left.verdict == "left"
    assert engine.inspect("deploy").verdict == "free"
    assert Event.objects.get(owner="a", kind="released").reason == "the waiting client had disconnected"
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
        removing.result(MAX_WAIT)
        assert {server.engine.inspect(name).verdict for name in "ab"} == {"free"}

    def test_forgetting_waiters_and_settling_their_names(self, server, other, two_lines):
        self.settles_both_while(server, other, lambda: run(purge_waiters()))

    def test_a_server_that_stops_and_settling_the_names_it_waits_for(self, server, other, two_lines):
        self.settles_both_while(server, other, lambda: run(delete_server(server.id)))

    def test_waiters_that_leave_and_settling_their_names(self, server, other, two_lines):
        self.settles_both_while(server, other, lambda: run(dequeue(two_lines)))

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
        assert ends.result(MAX_WAIT).verdict == "ended"
        run(sweep_sessions())
        assert {engine.inspect(name).verdict for name in "ab"} == {"free"}
        assert not Waiter.objects.exists()
        assert run(verify()).contradictions == []
