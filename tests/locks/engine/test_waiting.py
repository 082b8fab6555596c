"""The queue: the statement that frees a lock hands it over to the first waiter."""

import contextlib
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from django.db import connection
from django.db.models.functions import Now

from locks.engine import requests, results, statements
from locks.engine.execution import run
from locks.engine.handover import (
    CLAIM_TIMEOUT_SECONDS,
    HEARTBEAT_SECONDS,
    HEARTBEAT_TIMEOUT_SECONDS,
    claim_handovers,
    dequeue,
    enqueue,
    hand_over_free_names,
    hand_over_names,
    server_heartbeat,
)
from locks.engine.maintenance import purge_waiters, sweep, sweep_sessions
from locks.engine.operations import release, resolve_handovers, run_round
from locks.events.history.verification import verify
from locks.models import Event, Lock, ServerProcess, Space, Token, Waiter
from tests.conftest import issue
from tests.locks.engine.conftest import Engine
from tests.locks.engine.time_travel import pass_seconds

pytestmark = pytest.mark.django_db


class WaitingServer:
    """A server process at which requests wait. It counts as present until `stop_heartbeats`, however slow the machine
    is."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.id = uuid4()
        run(server_heartbeat(self.id))
        self._set_heartbeat("+ interval '1 hour'")

    def wait(self, name: str = "deploy", *, seconds: float = 60, **terms) -> requests.Enqueue:
        return requests.Enqueue(
            digest=self.engine.digest, name=name, server_id=self.id, wait_ms=int(seconds * 1000), **terms
        )

    def enqueue(self, name: str = "deploy", *, seconds: float = 60, **terms) -> results.Enqueued:
        return run(enqueue([self.wait(name, seconds=seconds, **terms)]))[0]

    def claim_handovers(self) -> list[results.Handover]:
        return run(claim_handovers(self.id))

    def stop_heartbeats(self) -> None:
        self._set_heartbeat("- interval '1 second'")
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE octo_waiter SET enqueued_at = enqueued_at - interval '1 second' WHERE server_id = %s", [self.id]
            )

    def _set_heartbeat(self, offset: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                f"UPDATE octo_server_process SET last_heartbeat_at = clock_timestamp() {offset} WHERE id = %s",
                [self.id],
            )


@pytest.fixture
def server(engine):
    return WaitingServer(engine)


@pytest.fixture
def held(engine):
    return engine.acquire("deploy", owner="holder", ttl_seconds=600)


def owners_and_kinds(name: str = "deploy") -> list[tuple[str, str]]:
    return list(Event.objects.filter(lock_name=name).order_by("id").values_list("owner", "kind"))


class TestEnqueue:
    def test_positions_are_assigned_in_order(self, server, held):
        assert [server.enqueue(owner=owner).position for owner in "abc"] == [1, 2, 3]
        found = server.engine.inspect("deploy")
        assert found.waiters == 3
        assert [waiter["owner"] for waiter in found.queue] == ["a", "b", "c"]
        assert server.engine.acquire("deploy").waiters == 3

    def test_a_batch_is_enqueued_in_its_order(self, server, held):
        waits = [
            requests.Enqueue(digest=server.engine.digest, name="deploy", owner=owner, server_id=server.id, wait_ms=1000)
            for owner in "abc"
        ]
        assert [entry.position for entry in run(enqueue(waits))] == [1, 2, 3]
        assert list(Waiter.objects.order_by("queue_seq").values_list("owner", flat=True)) == ["a", "b", "c"]

    def test_a_lock_that_became_free_is_reported_and_handed_over_by_the_caller(self, server, held):
        server.engine.release("deploy", held.lease_id)
        entry = server.enqueue(owner="a")
        assert (entry.verdict, entry.is_free) == ("waiting", True)
        assert server.enqueue("never").verdict == "retry"
        run(hand_over_names([results.LockKey(entry.space_id, "deploy")]))
        assert [handed.owner for handed in server.claim_handovers()] == ["a"]

    def test_two_requests_with_one_key_in_a_batch_have_one_entry(self, server, held):
        key = {"idempotency_digest": "aa" * 32, "request_digest": "bb" * 32}
        first, second = run(enqueue([server.wait(owner="a", **key) for _ in range(2)]))
        assert (first.verdict, second.verdict, second.waiter_id) == ("waiting", "row_locked", None)
        assert Waiter.objects.get().pk == first.waiter_id
        again = server.enqueue(owner="a", queue_seq=second.queue_seq, **key)
        assert (again.replaced_waiter_ids, again.queue_seq) == ([first.waiter_id], first.queue_seq)
        assert Waiter.objects.get().pk == again.waiter_id

    def test_a_delayed_lock_is_waited_for(self, server):
        lease = server.engine.acquire("deploy", lock_delay_seconds=60)
        server.engine.release("deploy", lease.lease_id)
        assert server.enqueue().verdict == "waiting"

    def test_a_delayed_lock_is_waited_for_by_its_last_holder_too(self, server):
        key = {"idempotency_digest": "aa" * 32, "request_digest": "bb" * 32}
        server.engine.acquire("deploy", ttl_seconds=1, lock_delay_seconds=60, **key)
        pass_seconds(2)
        assert server.enqueue(**key).verdict == "waiting"

    def test_the_queue_limits_of_the_space(self, server, held):
        Space.objects.update(max_waiters_per_name=2, max_waiters=3)
        server.engine.acquire("other")
        assert [server.enqueue().verdict for _ in range(3)] == ["waiting", "waiting", "queue_full"]
        assert [server.enqueue("other").verdict for _ in range(2)] == ["waiting", "queue_full"]

    def test_a_retry_takes_over_the_position_of_its_first_attempt(self, server, held):
        key = {"idempotency_digest": "aa" * 32, "request_digest": "bb" * 32}
        first = server.enqueue(owner="a", **key)
        server.enqueue(owner="b")
        other = WaitingServer(server.engine)
        again = other.enqueue(owner="a", **key)
        assert (again.verdict, again.replaced_waiter_ids, again.queue_seq) == (
            "waiting",
            [first.waiter_id],
            first.queue_seq,
        )
        assert other.enqueue(owner="a", **{**key, "request_digest": "cc" * 32}).verdict == "idempotency_conflict"
        server.engine.release("deploy", held.lease_id)
        assert [handed.owner for handed in other.claim_handovers()] == ["a"]
        assert server.claim_handovers() == []

    def test_a_first_attempt_that_leaves_does_not_remove_its_retry(self, server, held):
        """At the same server, where only the id tells them apart."""
        key = {"idempotency_digest": "aa" * 32, "request_digest": "bb" * 32}
        first = server.enqueue(**key)
        server.enqueue(**key)
        assert [row.verdict for row in run(dequeue([first.waiter_id], server_id=server.id))] == ["unknown"]
        server.engine.release("deploy", held.lease_id)
        assert [handed.verdict for handed in server.claim_handovers()] == ["acquired"]

    def test_a_requeued_request_returns_to_its_position(self, server, held):
        key = {"idempotency_digest": "aa" * 32, "request_digest": "bb" * 32}
        first = server.enqueue(owner="first", **key)
        server.enqueue(owner="second")
        Waiter.objects.filter(owner="first").delete()
        back = server.enqueue(owner="first", queue_seq=first.queue_seq, is_requeue=True, **key)
        assert (back.verdict, back.position, back.queue_seq) == ("waiting", 1, first.queue_seq)
        server.engine.release("deploy", held.lease_id)
        assert [handed.owner for handed in server.claim_handovers()] == ["first"]

    def test_a_requeued_request_is_superseded_by_its_retry(self, server, held):
        key = {"idempotency_digest": "aa" * 32, "request_digest": "bb" * 32}
        first = server.enqueue(**key)
        retry = WaitingServer(server.engine).enqueue(**key)
        assert server.enqueue(queue_seq=first.queue_seq, is_requeue=True, **key).verdict == "superseded"
        assert Waiter.objects.get().pk == retry.waiter_id


def test_a_waiter_that_disappeared_costs_less_than_two_seconds():
    assert HEARTBEAT_TIMEOUT_SECONDS + CLAIM_TIMEOUT_SECONDS + HEARTBEAT_SECONDS <= 1.8
    hand_to_first_waiter = (Path(statements.__file__).parent / "sql/functions/hand_to_first_waiter.sql").read_text()
    for sql, seconds in (
        (hand_to_first_waiter, HEARTBEAT_TIMEOUT_SECONDS),
        (statements.END_AND_HAND_OVER.sql, CLAIM_TIMEOUT_SECONDS),
    ):
        assert sql.count(f"interval '{round(seconds * 1000)} milliseconds'") == 1


class TestHandover:
    def test_one_waiter_gets_the_lock_also_if_the_planner_expects_only_one(self, server, held):
        """For a table of one row the planner may put the update's target on the outer side of a nested loop. A subquery
        with LIMIT and FOR UPDATE on the inner side then runs again for each row, and skips the waiter just changed."""
        server.enqueue(owner="a")
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE octo_waiter")
            cursor.execute("SET LOCAL enable_indexscan = off")
            cursor.execute("SET LOCAL enable_bitmapscan = off")
        server.enqueue(owner="b")
        server.enqueue(owner="c")
        server.engine.release("deploy", held.lease_id)
        assert [waiter.owner for waiter in Waiter.objects.filter(handed_lease_id__isnull=False)] == ["a"]
        assert Event.objects.filter(kind="acquired", lock_name="deploy").count() == 2

    def test_a_waiter_that_joined_after_the_clock_was_read_has_not_waited(self, server, held):
        """The queue is read after the clock: a request may get a lease that is dated before it was sent."""
        server.enqueue(owner="a")
        Waiter.objects.update(enqueued_at=Now() + timedelta(seconds=1))
        server.engine.release("deploy", held.lease_id)
        assert Event.objects.get(owner="a").detail == {"waited_ms": 0}

    def test_release_hands_over_to_the_first_waiter(self, server, held):
        server.enqueue(owner="a", ttl_seconds=120, metadata="m", request_id="req_a")
        server.enqueue(owner="b")
        assert server.engine.release("deploy", held.lease_id).verdict == "released"
        (handed,) = server.claim_handovers()
        assert (handed.verdict, handed.owner, handed.metadata) == ("acquired", "a", "m")
        assert handed.fencing_token > held.fencing_token
        assert handed.expires_at - handed.now == timedelta(seconds=120)
        assert owners_and_kinds() == [("holder", "acquired"), ("holder", "released"), ("a", "acquired")]
        assert Event.objects.get(owner="a").request_id == "req_a"
        assert server.engine.renew("deploy", handed.lease_id).verdict == "renewed"
        assert server.claim_handovers() == []
        assert [waiter["owner"] for waiter in server.engine.inspect("deploy").queue] == ["b"]

    def test_force_release_hands_over(self, server, held):
        server.enqueue(owner="a")
        assert server.engine.force_release("deploy", expected_fencing_token=1).verdict == "fencing_mismatch"
        forced = server.engine.force_release("deploy", expected_fencing_token=held.fencing_token)
        assert (forced.verdict, forced.owner) == ("released", "holder")
        assert Event.objects.get(pk=forced.event_id).kind == "force_released"
        assert [handed.owner for handed in server.claim_handovers()] == ["a"]

    def test_the_sweep_hands_over(self, server, held):
        server.enqueue(owner="a")
        pass_seconds(601)
        assert run(sweep()) == 1
        assert owners_and_kinds()[1:] == [("holder", "expired"), ("a", "acquired")]

    def test_the_check_of_the_waiting_server_hands_over(self, server, held):
        server.enqueue(owner="a")
        assert run(hand_over_free_names(server.id)) == 0
        pass_seconds(601)
        assert run(hand_over_free_names(server.id)) == 1
        assert [handed.owner for handed in server.claim_handovers()] == ["a"]

    def test_the_end_of_a_session_hands_over(self, server):
        session = server.engine.open_session().session_id
        server.engine.acquire("deploy", session_id=session, ttl_seconds=600)
        server.enqueue(owner="a")
        server.engine.end_session(session)
        assert [handed.owner for handed in server.claim_handovers()] == ["a"]

    def test_many_handovers_at_once_have_longer_to_be_claimed(self, server):
        session = server.engine.open_session()
        for number in range(50):
            server.engine.acquire(f"job/{number}", session_id=session.session_id)
            server.enqueue(f"job/{number}")
        run(server_heartbeat(server.id))
        server.engine.end_session(session.session_id)
        lasts = {lock.expires_at - lock.acquired_at for lock in Lock.objects.all()}
        assert lasts == {timedelta(seconds=CLAIM_TIMEOUT_SECONDS, milliseconds=49)}

    def test_the_sweep_of_an_ended_session_hands_over(self, server):
        session = server.engine.open_session(ttl_seconds=10).session_id
        server.engine.acquire("deploy", session_id=session, ttl_seconds=600)
        server.enqueue(owner="a")
        pass_seconds(11)
        assert run(sweep_sessions()) == 1
        assert [handed.owner for handed in server.claim_handovers()] == ["a"]

    def test_a_new_request_gets_held_and_the_first_waiter_the_lock(self, server, held):
        """Also if the lease has expired and was not swept."""
        server.enqueue(owner="a")
        pass_seconds(601)
        newcomer = server.engine.acquire("deploy", owner="newcomer")
        assert (newcomer.verdict, newcomer.owner) == ("held", "a")
        assert server.engine.claim_next(["deploy"]).verdict == "held"
        assert {row.verdict for row in server.engine.acquire_all(["x", "deploy"])} == {"held"}

    def test_claim_next_and_acquire_all_hand_over_first(self, server, held):
        server.enqueue(owner="a")
        pass_seconds(601)
        assert server.engine.claim_next(["deploy", "free"]).name == "free"
        assert [handed.owner for handed in server.claim_handovers()] == ["a"]

    def test_after_a_delay_the_first_waiter_gets_it(self, server):
        lease = server.engine.acquire("deploy", lock_delay_seconds=30)
        server.enqueue(owner="a")
        server.engine.release("deploy", lease.lease_id)
        assert server.claim_handovers() == []
        assert run(hand_over_free_names(server.id)) == 0
        pass_seconds(31)
        assert server.engine.acquire("deploy", owner="newcomer").owner == "a"
        assert [handed.owner for handed in server.claim_handovers()] == ["a"]

    def test_each_lock_of_a_batch_of_releases_is_handed_over(self, server, engine):
        leases = engine.acquire_all(["a", "b", "c"])
        server.enqueue("a", owner="first")
        server.enqueue("c", owner="third")
        batch = [
            requests.Release(digest=engine.digest, name=row.name, lease_id=row.lease_id) for row in (*leases, leases[0])
        ]
        done = run(release(batch))
        assert [row.verdict for row in done] == ["released", "released", "released", "not_held"]
        assert {(handed.name, handed.owner) for handed in server.claim_handovers()} == {("a", "first"), ("c", "third")}

    def test_an_empty_queue_is_cleared_from_the_lock(self, server, held):
        placed = server.enqueue()
        assert run(dequeue([placed.waiter_id]))[0].verdict == "left"
        assert Lock.objects.get().last_waiter_id is not None
        server.engine.release("deploy", held.lease_id)
        assert Lock.objects.get().last_waiter_id is None
        assert server.engine.acquire("deploy").verdict == "acquired"


class TestDisappearedWaiters:
    def test_a_server_without_heartbeats_is_skipped(self, server, held):
        dead = WaitingServer(server.engine)
        dead.enqueue(owner="dead")
        server.enqueue(owner="alive")
        dead.stop_heartbeats()
        server.engine.release("deploy", held.lease_id)
        assert [handed.owner for handed in server.claim_handovers()] == ["alive"]

    def test_a_queue_of_gone_waiters_counts_as_empty(self, server, held):
        server.enqueue(owner="dead")
        server.stop_heartbeats()
        server.engine.release("deploy", held.lease_id)
        assert Waiter.objects.count() == 0
        assert server.engine.acquire("deploy", owner="newcomer").verdict == "acquired"

    def test_an_unclaimed_handover_goes_to_the_next(self, server, held):
        server.enqueue(owner="a")
        server.enqueue(owner="b")
        server.engine.release("deploy", held.lease_id)
        pass_seconds(1)
        assert server.engine.acquire("deploy", owner="newcomer").owner == "b"
        assert [(handed.owner, handed.verdict) for handed in server.claim_handovers()] == [("b", "acquired")]
        assert owners_and_kinds()[2:] == [("a", "acquired"), ("a", "expired"), ("b", "acquired")]
        assert Event.objects.get(owner="a", kind="expired").reason == "handed over, but not claimed"

    def test_a_late_claim_gets_handover_expired(self, server, held):
        server.enqueue(owner="a")
        server.engine.release("deploy", held.lease_id)
        pass_seconds(1)
        assert [handed.verdict for handed in server.claim_handovers()] == ["handover_expired"]
        assert Waiter.objects.count() == 0

    def test_a_waiter_that_leaves_returns_its_handover(self, server, held):
        leaver = server.enqueue(owner="a")
        server.enqueue(owner="b")
        server.engine.release("deploy", held.lease_id)
        run(dequeue([leaver.waiter_id]))
        assert [handed.owner for handed in server.claim_handovers()] == ["b"]
        released = Event.objects.get(owner="a", kind="released")
        assert (released.actor_kind, released.actor_name) == ("token", "operator")
        assert released.reason == "the waiting client had disconnected"

    def test_a_waiter_that_leaves_takes_nothing_from_its_retry(self, server, held):
        key = {"idempotency_digest": "00" * 32, "request_digest": "11" * 32}
        leaver = server.enqueue(owner="a", **key)
        server.engine.release("deploy", held.lease_id)
        retry = server.engine.acquire("deploy", owner="a", **key)
        run(dequeue([leaver.waiter_id]))
        assert server.engine.renew("deploy", retry.lease_id).verdict == "renewed"

    def test_a_waiter_that_leaves_takes_nothing_from_its_retry_at_another_server(self, server, held):
        key = {"idempotency_digest": "00" * 32, "request_digest": "11" * 32}
        other = WaitingServer(server.engine)
        first = server.enqueue(owner="a", **key)
        other.enqueue(owner="a", **key)
        assert run(dequeue([first.waiter_id], server_id=server.id))[0].verdict == "unknown"
        server.engine.release("deploy", held.lease_id)
        assert [handed.verdict for handed in other.claim_handovers()] == ["acquired"]

    def test_a_waiter_that_leaves_gets_its_position(self, server, held):
        server.enqueue(owner="a")
        second = server.enqueue(owner="b")
        (left,) = run(dequeue([second.waiter_id]))
        assert (left.verdict, left.position) == ("left", 2)
        assert run(dequeue([second.waiter_id]))[0].verdict == "unknown"

    def test_a_waiter_past_its_deadline_or_without_valid_session_or_token_is_skipped(self, server, held):
        session = server.engine.open_session(ttl_seconds=10).session_id
        server.enqueue(owner="impatient", seconds=0)
        server.enqueue(owner="of a session", session_id=session)
        server.enqueue(owner="patient")
        pass_seconds(11)
        server.engine.release("deploy", held.lease_id)
        assert [handed.owner for handed in server.claim_handovers()] == ["patient"]

    @pytest.mark.parametrize(
        "lost", [{"scopes": ["locks:read"]}, {"prefixes": ["other/"]}, {"revoked_at": Now()}, {"expires_at": Now()}],
        ids=lambda lost: next(iter(lost)),
    )  # fmt: skip
    def test_a_waiter_whose_token_may_no_longer_have_the_lock_is_skipped(self, server, held, space, lost):
        other = WaitingServer(Engine(issue(space, "other", "locks:write")))
        other.enqueue(owner="other")
        server.enqueue(owner="patient")
        Token.objects.filter(name="other").update(**lost)
        server.engine.release("deploy", held.lease_id)
        assert other.claim_handovers() == []
        assert [handed.owner for handed in server.claim_handovers()] == ["patient"]

    def test_nothing_is_handed_over_in_an_archived_space(self, server, held):
        server.enqueue(owner="patient")
        Space.objects.update(archived_at=Now())
        pass_seconds(601)
        assert run(sweep()) == 1
        assert owners_and_kinds()[1:] == [("holder", "expired")]
        assert not Waiter.objects.exists()

    def test_the_end_of_a_session_removes_it_from_every_queue(self, server, held):
        session = server.engine.open_session().session_id
        server.enqueue(owner="of a session", session_id=session)
        server.engine.end_session(session)
        assert Waiter.objects.count() == 0

    def test_waiters_of_dead_servers_are_purged(self, server, held):
        server.enqueue()
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE octo_server_process SET last_heartbeat_at = clock_timestamp() - interval '2 minutes'"
            )
        run(purge_waiters())
        assert (Waiter.objects.count(), ServerProcess.objects.count()) == (0, 0)

    def test_the_history_is_consistent(self, server, held):
        first = server.enqueue(owner="a")
        server.enqueue(owner="b")
        server.enqueue(owner="c")
        server.engine.release("deploy", held.lease_id)
        run(dequeue([first.waiter_id]))
        (handed,) = server.claim_handovers()
        server.engine.release("deploy", handed.lease_id)
        server.claim_handovers()
        server.engine.force_release("deploy")
        server.engine.acquire("deploy")
        assert run(verify()).contradictions == []


class TestAcquireAllWithHandover:
    def test_the_handed_lease_becomes_one_of_them(self, server, held):
        server.enqueue(owner="a")
        server.engine.release("deploy", held.lease_id)
        (handed,) = server.claim_handovers()
        rows = server.engine.acquire_all(
            ["other", "deploy"], handed_lease_id=handed.lease_id, owner="a", ttl_seconds=30
        )
        assert {row.verdict for row in rows} == {"acquired"}
        assert rows[1].lease_id == handed.lease_id
        assert rows[1].fencing_token == handed.fencing_token
        assert owners_and_kinds() == [("holder", "acquired"), ("holder", "released"), ("a", "acquired")]
        assert run(verify()).contradictions == []

    def test_the_handed_lease_is_unchanged_if_another_name_is_held(self, server, held):
        server.engine.acquire("other")
        server.enqueue(owner="a")
        server.engine.release("deploy", held.lease_id)
        (handed,) = server.claim_handovers()
        rows = server.engine.acquire_all(["other", "deploy"], handed_lease_id=handed.lease_id)
        assert [(row.verdict, row.is_blocking) for row in rows] == [("held", True), ("held", False)]
        assert server.engine.renew("deploy", handed.lease_id).verdict == "renewed"

    def test_a_request_that_arrived_earlier_is_served_first_though_it_got_its_place_later(self, server, held):
        server.enqueue(owner="late", queue_seq=2_000)
        assert server.enqueue(owner="early", queue_seq=1_000).position == 1
        server.engine.release("deploy", held.lease_id)
        (handed,) = server.claim_handovers()
        assert handed.owner == "early"

    def test_queue_seq_counts_in_another_queue(self, server, held):
        first = server.enqueue(owner="early")
        server.engine.acquire("other")
        server.enqueue("other", owner="late")
        moved = server.enqueue("other", owner="early", queue_seq=first.queue_seq)
        assert moved.position == 1
        assert [waiter["owner"] for waiter in server.engine.inspect("other").queue] == ["early", "late"]


class TestRounds:
    """As the batcher runs them: a round, and a second statement only for the requests that need a handover."""

    def test_a_release_is_done_by_the_handover(self, server, held):
        server.enqueue(owner="a")
        free = server.engine.acquire("free")
        batch = [
            requests.Release(digest=server.engine.digest, name=lease.name, lease_id=lease.lease_id)
            for lease in (held, free)
        ]
        first, second = run(run_round(statements.RELEASE, batch))
        assert (first.verdict, second.verdict) == ("needs_handover", "released")
        (released,) = run(resolve_handovers(statements.RELEASE, batch[:1]))
        assert (released.verdict, released.fencing_token) == ("released", held.fencing_token)
        assert [handover.owner for handover in server.claim_handovers()] == ["a"]

    def test_an_acquire_is_run_again(self, server, held):
        server.enqueue(owner="a")
        pass_seconds(601)
        run(server_heartbeat(server.id))
        batch = [requests.Acquire(digest=server.engine.digest, name="deploy")]
        assert [row.verdict for row in run(run_round(statements.ACQUIRE, batch))] == ["needs_handover"]
        assert run(resolve_handovers(statements.ACQUIRE, batch)) == [None]
        assert [row.verdict for row in run(run_round(statements.ACQUIRE, batch))] == ["held"]

    def test_a_contended_release_takes_two_statements(self, server, held):
        server.enqueue(owner="a")
        operation = release([requests.Release(digest=server.engine.digest, name="deploy", lease_id=held.lease_id)])
        names, rows = [], None
        with contextlib.suppress(StopIteration):
            while True:
                statement, parameters = operation.send(rows)
                names.append(statement.name)
                rows = run(single(statement, parameters))
        assert names == ["release", "end_and_hand_over"]


def single(statement, parameters):
    return (yield statement, parameters)
