"""A frozen name is closed to every new claim, and to nothing else."""

from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.db.models.functions import Now

from locks.engine import requests
from locks.engine.execution import run
from locks.engine.handover import hand_over_free_names, hand_over_names
from locks.engine.maintenance import sweep
from locks.engine.operations import acquire
from locks.engine.results import LockKey
from locks.models import Event, Freeze, Lock, Space, Waiter
from locks.services import freezes
from locks.services.audit import Actor
from tests.conftest import issue
from tests.locks.engine.concurrent_session import MAX_WAIT, concurrent_session
from tests.locks.engine.conftest import Engine
from tests.locks.engine.test_waiting import WaitingServer
from tests.locks.engine.time_travel import pass_seconds
from tests.polling import until

REASON = "database migration"


def freeze(space: Space, prefix: str = "", *, hours: float = 2) -> Freeze:
    return freezes.freeze(
        actor=Actor.of_shell(), space=space, prefix=prefix, reason=REASON, duration=timedelta(hours=hours)
    )


def lift(frozen: Freeze) -> None:
    freezes.lift(actor=Actor.of_shell(), space=frozen.space, freeze_id=frozen.pk)


def let_it_end(frozen: Freeze) -> None:
    past = {"created_at": Now() - timedelta(hours=2), "until": Now() - timedelta(seconds=1)}
    Freeze.objects.filter(pk=frozen.pk).update(**past)


@pytest.fixture
def server(engine):
    return WaitingServer(engine)


@pytest.mark.django_db
class TestClaims:
    def test_a_frozen_name_is_delayed_until_the_end_of_the_freeze_and_others_are_acquired(self, engine, space):
        frozen = freeze(space, "deploy/")
        refused = engine.acquire("deploy/main")
        assert (refused.verdict, refused.available_at) == ("delayed", frozen.until)
        assert (refused.freeze["prefix"], refused.freeze["reason"]) == ("deploy/", REASON)
        assert engine.acquire("deploy").verdict == "acquired"
        assert not Lock.objects.filter(name="deploy/main").exists()

    def test_a_freeze_of_the_space_closes_all_names_in_it_and_none_elsewhere(self, engine, space, red_space):
        freeze(space)
        assert engine.acquire("anything").verdict == "delayed"
        assert Engine(issue(red_space, "other", "locks:write")).acquire("anything").verdict == "acquired"

    def test_every_request_of_a_batch_is_decided_by_its_own_name(self, engine, space):
        freeze(space, "a")
        batch = [requests.Acquire(digest=engine.digest, name=name) for name in ("a", "b", "a/x", "c")]
        assert [row.verdict for row in run(acquire(batch))] == ["delayed", "acquired", "delayed", "acquired"]

    def test_of_two_freezes_the_one_that_ends_last_is_named(self, engine, space):
        freeze(space, "", hours=1)
        later = freeze(space, "dep", hours=2)
        assert engine.acquire("deploy").freeze["prefix"] == "dep"
        lift(later)
        assert engine.acquire("deploy").freeze["prefix"] == ""

    @pytest.mark.parametrize("end", [lift, let_it_end])
    def test_the_name_is_acquired_again_when_the_freeze_is_lifted_or_its_time_is_over(self, engine, space, end):
        end(freeze(space))
        assert engine.acquire("deploy").verdict == "acquired"
        assert engine.inspect("deploy").freeze is None

    def test_acquire_all_gets_none_and_names_the_frozen_one(self, engine, space):
        frozen = freeze(space, "b")
        a, b = engine.acquire_all(["a", "b"])
        assert (a.verdict, b.verdict) == ("delayed", "delayed")
        assert (a.is_blocking, b.is_blocking) == (False, True)
        assert (a.freeze, b.freeze["reason"], b.available_at) == (None, REASON, frozen.until)
        assert engine.acquire("a").verdict == "acquired"

    def test_claim_next_passes_over_frozen_names(self, engine, space):
        freeze(space, "a")
        assert engine.claim_next(["a", "a/new", "b"]).name == "b"

    def test_claim_next_is_delayed_if_only_frozen_names_are_free(self, engine, space):
        engine.acquire("b", ttl_seconds=600)
        freeze(space, "a")
        refused = engine.claim_next(["a", "b"])
        assert (refused.verdict, refused.name, refused.freeze["reason"]) == ("delayed", "a", REASON)
        assert engine.claim_next(["b"]).verdict == "held"

    @pytest.mark.parametrize("name", ["path:src/auth.rs", "repo:deploy", "issue:1"])
    def test_names_of_namespaces_are_frozen_too(self, engine, space, name):
        frozen = freeze(space)
        assert engine.acquire(name).verdict == "delayed"
        lift(frozen)
        assert engine.acquire(name).verdict == "acquired"


@pytest.mark.django_db
class TestHolders:
    def test_renew_release_and_force_release_go_on(self, engine, space):
        first, second = engine.acquire("a"), engine.acquire("b")
        freeze(space)
        assert engine.renew("a", first.lease_id).verdict == "renewed"
        assert engine.release("a", first.lease_id).verdict == "released"
        assert engine.force_release("b", expected_fencing_token=second.fencing_token).verdict == "released"
        assert {engine.inspect(name).verdict for name in "ab"} == {"delayed"}

    def test_another_holder_is_held_as_before(self, engine, space):
        engine.acquire("deploy")
        freeze(space)
        refused = engine.acquire("deploy")
        assert (refused.verdict, refused.freeze) == ("held", None)

    def test_a_caller_that_is_recognised_gets_its_lease(self, engine, space):
        key = {"idempotency_digest": "aa" * 32, "request_digest": "bb" * 32}
        session = {"session_id": engine.open_session().session_id}
        by_key, by_session = engine.acquire("a", **key), engine.acquire("b", **session)
        together = engine.acquire_all(["c", "d"], **key)
        claimed = engine.claim_next(["e"], **key)
        freeze(space)
        for name, terms, lease in (("a", key, by_key), ("b", session, by_session)):
            again = engine.acquire(name, **terms)
            assert (again.verdict, again.lease_id) == ("recognised", lease.lease_id)
        assert [row.lease_id for row in engine.acquire_all(["c", "d"], **key)] == [row.lease_id for row in together]
        assert engine.claim_next(["e"], **key).lease_id == claimed.lease_id

    def test_a_lease_that_expired_is_not_recognised(self, engine, space):
        key = {"idempotency_digest": "aa" * 32, "request_digest": "bb" * 32}
        engine.acquire("a", ttl_seconds=10, **key)
        freeze(space)
        pass_seconds(11)
        assert engine.acquire("a", **key).verdict == "delayed"


@pytest.mark.django_db
class TestWaiters:
    def test_a_lock_that_is_released_stays_free_and_its_waiters_keep_their_places(self, engine, server, space):
        lease = engine.acquire("deploy")
        entries = [server.enqueue(owner=owner) for owner in "ab"]
        frozen = freeze(space)
        engine.release("deploy", lease.lease_id)
        run(hand_over_free_names(server.id))
        run(hand_over_names([LockKey(space.pk, "deploy")]))
        assert server.claim_handovers() == []
        assert list(Waiter.objects.order_by("queue_seq").values_list("pk", flat=True)) == [
            entry.waiter_id for entry in entries
        ]
        lift(frozen)
        run(hand_over_free_names(server.id))
        assert [handed.owner for handed in server.claim_handovers()] == ["a"]

    def test_so_does_one_whose_lease_expires(self, engine, server, space):
        engine.acquire("deploy", ttl_seconds=10)
        server.enqueue(owner="a")
        frozen = freeze(space)
        pass_seconds(11)
        run(sweep())
        assert server.claim_handovers() == []
        assert Event.objects.filter(lock_name="deploy", kind="expired").exists()
        let_it_end(frozen)
        run(hand_over_free_names(server.id))
        assert [handed.owner for handed in server.claim_handovers()] == ["a"]

    def test_a_request_joins_the_queue_of_a_frozen_name_that_was_never_used(self, engine, server, space):
        frozen = freeze(space)
        entry = server.enqueue("new", owner="a")
        assert (entry.verdict, entry.is_free) == ("waiting", False)
        lift(frozen)
        assert engine.acquire("new").verdict == "held"
        assert [handed.owner for handed in server.claim_handovers()] == ["a"]

    def test_an_acquire_that_waits_has_its_place_with_the_same_statement(self, engine, server, space):
        engine.release("deploy", engine.acquire("deploy").lease_id)
        freeze(space)
        waits = {"server_id": server.id, "wait_ms": 60_000}
        assert engine.acquire("deploy", **waits).verdict == "waiting"
        assert engine.acquire("new", **waits).verdict == "delayed"
        assert Waiter.objects.get().name == "deploy"

    def test_waiters_of_a_frozen_path_hold_up_no_name_that_is_not_frozen(self, engine, server, space):
        frozen = freeze(space, "path:src/")
        assert server.enqueue("path:src/a", owner="a").verdict == "waiting"
        wide = engine.acquire("path:")
        assert wide.verdict == "acquired"
        lift(frozen)
        run(hand_over_free_names(server.id))
        assert server.claim_handovers() == []
        engine.release("path:", wide.lease_id)
        assert [handed.owner for handed in server.claim_handovers()] == ["a"]


@pytest.mark.usefixtures("committed")
class TestRaces:
    def test_freezing_waits_for_a_claim_that_began_before(self, engine, space):
        lease = engine.acquire("deploy")
        engine.release("deploy", lease.lease_id)
        with concurrent_session() as worker, concurrent_session() as operator:
            with transaction.atomic():
                Lock.objects.select_for_update().get(name="deploy")
                claim = worker.run_blocked(engine.acquire, "deploy")
                freezing = operator.start(freeze, space)
                # The claim waits for the row, and the freeze, once it is committed, for the claim.
                until(Freeze.objects.exists)
                assert not freezing.done()
            granted = claim.result(MAX_WAIT)
            freezing.result(MAX_WAIT)
        assert granted.verdict == "acquired"
        assert engine.release("deploy", granted.lease_id).verdict == "released"
        assert engine.acquire("deploy").verdict == "delayed"

    def test_it_waits_for_longer_than_a_claim_waits_for_a_row(self, space):
        with connection.cursor() as cursor:
            cursor.execute("SELECT setting::int / 1000.0 FROM pg_settings WHERE name = 'lock_timeout'")
            (lock_timeout,) = cursor.fetchone()
        assert 0 < lock_timeout < freezes.MAX_DRAIN_SECONDS

    def test_after_a_freeze_has_returned_no_claim_is_granted(self, engine, space):
        """Workers claim in threads of their own, all the time; the fencing token is the time of a grant."""
        names = [f"job-{number}" for number in range(4)]

        def work() -> list[int]:
            granted = []
            while not Freeze.objects.exists() or len(granted) < 1:
                for name in names:
                    lease = engine.acquire(name)
                    if lease.verdict == "acquired":
                        granted.append(lease.acquired_at)
                        engine.release(name, lease.lease_id)
            return granted + [row.acquired_at for row in map(engine.acquire, names) if row.verdict == "acquired"]

        with concurrent_session() as first, concurrent_session() as second:
            workers = [first.start(work), second.start(work)]
            while Event.objects.filter(kind="acquired").count() < 20:
                pass
            freeze(space)
            frozen_at = first.now()
            granted = [moment for worker in workers for moment in worker.result(MAX_WAIT)]
        assert granted
        assert max(granted) <= frozen_at

    def test_two_operators_that_lift_the_same_freeze_do_it_once(self, engine, space):
        frozen = freeze(space)
        with concurrent_session() as other:
            with transaction.atomic():
                lift(frozen)
                second = other.run_blocked(lift, frozen)
            with pytest.raises(freezes.NotFrozen):
                second.result(MAX_WAIT)
        assert Event.objects.filter(kind="unfrozen").count() == 1


@pytest.mark.django_db
class TestHistory:
    def test_both_ends_are_recorded_once(self, space):
        lifted, over = freeze(space, "a"), freeze(space, "b")
        lift(lifted)
        let_it_end(over)
        assert [freezes.record_ends(), freezes.record_ends()] == [1, 0]
        events = Event.objects.filter(kind__in=["frozen", "unfrozen"]).order_by("id")
        assert [(event.kind, event.detail["prefix"]) for event in events] == [
            ("frozen", "a"), ("frozen", "b"), ("unfrozen", "a"), ("unfrozen", "b"),
        ]  # fmt: skip
        assert {event.reason for event in events} == {REASON}
        assert events.last().actor_name == "expiry"

    def test_the_space_knows_the_latest_end(self, space):
        freeze(space, "a", hours=1)
        later = freeze(space, "b", hours=2)
        space.refresh_from_db()
        assert space.frozen_until == later.until
        lift(later)
        space.refresh_from_db()
        assert space.frozen_until == freezes.in_force(space).get().until

    def test_a_space_has_only_so_many(self, space, monkeypatch):
        monkeypatch.setattr(freezes, "MAX_FREEZES_PER_SPACE", 1)
        freeze(space, "a")
        with pytest.raises(freezes.TooManyFreezes):
            freeze(space, "b")
