"""Joining a queue, leaving it and freeing the lock, each at the worst moment of another: no waiter is left behind."""

from uuid import uuid4

import pytest
from django.db import transaction

from locks.engine import results
from locks.engine.execution import run
from locks.engine.handover import (
    delete_server,
    dequeue,
    enqueue,
    hand_over_free_names,
    hand_over_names,
    server_heartbeat,
)
from locks.engine.maintenance import purge_waiters, sweep, sweep_sessions
from locks.events.history.verification import verify
from locks.models import Event, Lock, Waiter
from tests.locks.engine.concurrent_session import MAX_WAIT, concurrent_session
from tests.locks.engine.test_waiting import WaitingServer
from tests.locks.engine.time_travel import pass_seconds

pytestmark = pytest.mark.usefixtures("committed")


@pytest.fixture
def other(committed):
    with concurrent_session() as other:
        yield other


@pytest.fixture
def server(engine):
    return WaitingServer(engine)


@pytest.fixture
def held(engine):
    return engine.acquire("deploy", owner="holder", ttl_seconds=600)


def test_a_release_that_waited_for_a_request_to_join_hands_over_to_it(server, held, other):
    with transaction.atomic():
        server.enqueue(owner="a")
        release = other.run_blocked(server.engine.release, "deploy", held.lease_id)
    assert release.result(MAX_WAIT).verdict == "released"
    assert [handed.owner for handed in server.claim_handovers()] == ["a"]


@pytest.fixture
def joins_while_locked(server, other):
    """Joins the queue while another transaction is changing the lock: it has its place, but the lock is not marked."""

    def joins_while_locked(owner: str = "a", **terms) -> results.Enqueued:
        with transaction.atomic():
            Lock.objects.select_for_update(no_key=True).get(name="deploy")
            entry = other.start(server.enqueue, owner=owner, **terms).result(MAX_WAIT)
        assert entry.verdict == "row_locked"
        return entry

    return joins_while_locked


def test_a_request_that_joins_during_a_release_is_handed_the_lock_when_it_is_marked(server, held, other):
    with transaction.atomic():
        server.engine.release("deploy", held.lease_id)
        joins = other.start(server.enqueue, owner="a").result(MAX_WAIT)
    assert joins.verdict == "row_locked"
    marked = server.enqueue(owner="a", queue_seq=joins.queue_seq, waiter_id=joins.waiter_id)
    assert (marked.verdict, marked.waiter_id, marked.is_free) == ("waiting", joins.waiter_id, True)
    run(hand_over_names([results.LockKey(marked.space_id, "deploy")]))
    assert [handed.owner for handed in server.claim_handovers()] == ["a"]


def test_a_request_that_met_a_locked_row_has_its_place_at_once(server, held, joins_while_locked):
    first = joins_while_locked()
    assert server.enqueue(owner="b").position == 2
    server.engine.release("deploy", held.lease_id)
    assert [handed.owner for handed in server.claim_handovers()] == ["a"]
    marked = server.enqueue(owner="a", queue_seq=first.queue_seq, waiter_id=first.waiter_id)
    assert (marked.verdict, marked.is_free) == ("unknown", False)


@pytest.mark.parametrize("take", ["acquire", "claim_next", "acquire_all"])
def test_a_new_request_does_not_overtake_a_waiter_that_is_not_marked(server, held, joins_while_locked, take):
    joins_while_locked()
    server.engine.release("deploy", held.lease_id)
    assert Lock.objects.get(name="deploy").last_waiter_id is None
    newcomer = getattr(server.engine, take)("deploy" if take == "acquire" else ["deploy"], owner="newcomer")
    assert {row.verdict for row in (newcomer if isinstance(newcomer, list) else [newcomer])} == {"held"}
    assert [handed.owner for handed in server.claim_handovers()] == ["a"]


def test_a_handover_goes_to_a_senior_that_came_back_while_it_waited_for_the_lock(server, held, other):
    """The snapshot of the release shows only the second; the first had lost its entry and has returned to its place."""
    first = server.enqueue(owner="first")
    server.enqueue(owner="second")
    run(dequeue([first.waiter_id]))
    with transaction.atomic():
        Lock.objects.select_for_update(no_key=True).get(name="deploy")
        release = other.run_blocked(server.engine.release, "deploy", held.lease_id)
        server.enqueue(owner="first", queue_seq=first.queue_seq, is_requeue=True)
    release.result(MAX_WAIT)
    assert [handed.owner for handed in server.claim_handovers()] == ["first"]


def test_a_retry_replaces_a_first_attempt_that_is_not_marked(server, held, joins_while_locked):
    key = {"idempotency_digest": "aa" * 32, "request_digest": "bb" * 32}
    first = joins_while_locked(**key)
    server.enqueue(owner="b")
    retry = joins_while_locked(**key)
    marked = server.enqueue(owner="a", queue_seq=retry.queue_seq, waiter_id=retry.waiter_id, **key)
    assert (marked.verdict, marked.replaced_waiter_ids, marked.queue_seq) == (
        "waiting",
        [first.waiter_id],
        first.queue_seq,
    )
    late = server.enqueue(owner="a", queue_seq=first.queue_seq, waiter_id=first.waiter_id, **key)
    assert late.verdict == "unknown"
    server.engine.release("deploy", held.lease_id)
    assert [handed.waiter_id for handed in server.claim_handovers()] == [retry.waiter_id]


def test_a_first_attempt_that_is_marked_after_its_retry_is_superseded(server, held, joins_while_locked):
    key = {"idempotency_digest": "aa" * 32, "request_digest": "bb" * 32}
    first, retry = joins_while_locked(**key), joins_while_locked(**key)
    late = server.enqueue(owner="a", queue_seq=first.queue_seq, waiter_id=first.waiter_id, **key)
    assert late.verdict == "superseded"
    assert Waiter.objects.get().pk == retry.waiter_id


def test_a_waiter_that_is_marked_during_its_handover_is_still_handed_the_lock(server, held, joins_while_locked):
    key = {"idempotency_digest": "aa" * 32, "request_digest": "bb" * 32}
    first = joins_while_locked(**key)
    server.enqueue(owner="b")
    server.engine.release("deploy", held.lease_id)
    marked = server.enqueue(owner="a", queue_seq=first.queue_seq, waiter_id=first.waiter_id, **key)
    assert (marked.verdict, marked.is_free) == ("waiting", False)
    assert [handed.owner for handed in server.claim_handovers()] == ["a"]


def test_a_claim_for_a_session_that_is_over_gets_nothing(server, held):
    session = server.engine.open_session().session_id
    server.enqueue(owner="a", session_id=session, ephemeral=False)
    server.engine.release("deploy", held.lease_id)
    server.engine.end_session(session)
    assert [handed.verdict for handed in server.claim_handovers()] == ["handover_expired"]


def test_a_locked_row_does_not_block_the_other_requests_of_the_batch(server, held, other):
    server.engine.acquire("other", ttl_seconds=600)
    waits = [server.wait(name, owner="a") for name in ("deploy", "other")]
    with transaction.atomic():
        Lock.objects.select_for_update(no_key=True).get(name="deploy")
        placed = other.start(lambda: run(enqueue(waits))).result(MAX_WAIT)
    assert [one.verdict for one in placed] == ["row_locked", "waiting"]


def test_a_locked_row_does_not_block_other_handovers_and_claims(server, held, other):
    server.engine.acquire("other", ttl_seconds=600)
    for name in ("deploy", "other"):
        server.enqueue(name, owner="a")
    pass_seconds(601)
    run(server_heartbeat(server.id))
    with transaction.atomic():
        Lock.objects.select_for_update(no_key=True).get(name="deploy")
        assert other.start(lambda: run(hand_over_free_names(server.id))).result(MAX_WAIT) == 1
        assert [handed.name for handed in other.start(server.claim_handovers).result(MAX_WAIT)] == ["other"]


def test_a_handover_that_waited_for_the_second_to_join_goes_to_the_first(server, held, other):
    server.enqueue(owner="a")
    with transaction.atomic():
        server.enqueue(owner="b")
        release = other.run_blocked(server.engine.release, "deploy", held.lease_id)
    release.result(MAX_WAIT)
    assert [handed.owner for handed in server.claim_handovers()] == ["a"]


def test_a_handover_skips_a_waiter_that_is_leaving(server, held, other):
    first = server.enqueue(owner="a")
    server.enqueue(owner="b")
    with transaction.atomic():
        run(dequeue([first.waiter_id]))
        release = other.run_blocked(server.engine.release, "deploy", held.lease_id)
    release.result(MAX_WAIT)
    assert [handed.owner for handed in server.claim_handovers()] == ["b"]


def test_the_last_waiter_leaves_and_another_joins_during_the_release(server, held, other):
    """The snapshot of the release shows only the waiter that is gone."""
    first = server.enqueue(owner="a")
    with transaction.atomic():
        Lock.objects.select_for_update(no_key=True).get(name="deploy")
        release = other.run_blocked(server.engine.release, "deploy", held.lease_id)
        run(dequeue([first.waiter_id]))
        server.enqueue(owner="b")
    release.result(MAX_WAIT)
    assert [handed.owner for handed in server.claim_handovers()] == ["b"]


def test_a_waiter_that_leaves_during_its_handover_returns_the_lease(server, held, other):
    first = server.enqueue(owner="a")
    server.enqueue(owner="b")
    with transaction.atomic():
        server.engine.release("deploy", held.lease_id)
        leaving = other.start(lambda: run(dequeue([first.waiter_id])))
    left = leaving.result(MAX_WAIT)
    assert [row.verdict for row in left] == ["left"]
    assert [handed.owner for handed in server.claim_handovers()] == ["b"]
    assert run(verify()).contradictions == []


def test_a_new_request_that_waited_for_the_handover_gets_held(server, held, other):
    server.enqueue(owner="a")
    with transaction.atomic():
        server.engine.release("deploy", held.lease_id)
        newcomer = other.start(server.engine.acquire, "deploy", owner="newcomer")
    answer = newcomer.result(MAX_WAIT)
    assert (answer.verdict, answer.lease_id) == ("held", None)


def test_a_sweep_and_a_new_request_at_once_hand_over_once(server, held, other):
    server.enqueue(owner="a")
    pass_seconds(601)
    newcomer = other.start(server.engine.acquire, "deploy", owner="newcomer")
    run(sweep())
    assert newcomer.result(MAX_WAIT).owner == "a"
    assert [handed.owner for handed in server.claim_handovers()] == ["a"]
    assert not Waiter.objects.exists()


def test_a_handover_that_was_locked_past_its_expiry_is_claimed_too_late(server, held, other):
    server.enqueue(owner="a")
    server.engine.release("deploy", held.lease_id)
    with transaction.atomic():
        Lock.objects.select_for_update(no_key=True).get(name="deploy")
        assert other.start(server.claim_handovers).result(MAX_WAIT) == []
        pass_seconds(1)
    assert [handed.verdict for handed in server.claim_handovers()] == ["handover_expired"]


def test_a_late_claim_does_not_reveal_the_current_lease(server, held):
    server.enqueue(owner="late")
    Waiter.objects.update(handed_lease_id=uuid4())
    (lapsed,) = server.claim_handovers()
    assert (lapsed.verdict, lapsed.lease_id) == ("handover_expired", None)


def test_a_dequeue_during_a_handover_returns_the_lease(engine, other, server, held):
    leaver = server.enqueue(owner="a").waiter_id
    with transaction.atomic():
        engine.release("deploy", held.lease_id)
        leaves = other.run_blocked(lambda: run(dequeue([leaver])))
    (left,) = leaves.result(MAX_WAIT)
    assert left.verdict == "left"
    assert engine.inspect("deploy").verdict == "free"
    assert Event.objects.get(owner="a", kind="released").reason == "the waiting client had disconnected"
    assert not Waiter.objects.exists()


class TestNoDeadlocks:
    """Statements that remove waiters without the locks of their names wait for none of them."""

    @pytest.fixture
    def two_queues(self, server):
        """Free names whose waiters are all past their deadline."""
        leases = server.engine.acquire_all(["a", "b"], ttl_seconds=600)
        yield [server.enqueue(row.name, seconds=-60).waiter_id for row in leases]
        assert not Waiter.objects.exists()

    def hand_over_both_during(self, server, other, work):
        """One name was handed over and the other is about to be, as in a batch."""
        with transaction.atomic():
            server.engine.force_release("b")
            removing = other.run_until_blocked(work)
            server.engine.force_release("a")
        removing.result(MAX_WAIT)
        assert {server.engine.inspect(name).verdict for name in "ab"} == {"free"}

    def test_purging_waiters_during_their_handover(self, server, other, two_queues):
        self.hand_over_both_during(server, other, lambda: run(purge_waiters()))

    def test_deleting_a_server_during_a_handover_to_it(self, server, other, two_queues):
        self.hand_over_both_during(server, other, lambda: run(delete_server(server.id)))

    def test_dequeuing_waiters_during_their_handover(self, server, other, two_queues):
        self.hand_over_both_during(server, other, lambda: run(dequeue(two_queues)))

    def test_ending_two_sessions_that_wait_for_each_other(self, server, other):
        """Each leaves the other's queue while its own locks are handed over."""
        engine = server.engine
        first, second = (engine.open_session().session_id for _ in range(2))
        engine.acquire("a", session_id=first)
        engine.acquire("b", session_id=second)
        server.enqueue("a", session_id=second)
        server.enqueue("b", session_id=first)
        with transaction.atomic():
            engine.end_session(first)
            ends = other.run_until_blocked(engine.end_session, second)
        assert ends.result(MAX_WAIT).verdict == "ended"
        run(sweep_sessions())
        assert {engine.inspect(name).verdict for name in "ab"} == {"free"}
        assert not Waiter.objects.exists()
        assert run(verify()).contradictions == []
