"""Two workers at one lock: the second had to wait for the first, and still gets the right answer.

The first one's transaction is kept open, which nothing in the product ever does, so that every race can be held
still at its worst moment.
"""

import time

import pytest
from django.db import transaction

from locks.engine import requests
from locks.engine.execution import run
from locks.engine.maintenance import sweep
from locks.engine.operations import acquire, release, renew
from locks.models import Event, Lock
from tests.locks.engine.concurrent_session import MAX_WAIT, concurrent_session
from tests.locks.engine.time_travel import pass_seconds
from tests.polling import until

pytestmark = pytest.mark.usefixtures("committed")


@pytest.fixture
def other(committed):
    with concurrent_session() as other:
        yield other


@pytest.fixture
def expired(engine):
    """A name whose lease expired ten seconds ago and was not swept."""
    lease = engine.acquire("deploy", ttl_seconds=10, owner="old")
    pass_seconds(20)
    return lease


@pytest.fixture
def free(engine):
    """A name that was used before."""
    lease = engine.acquire("deploy")
    engine.release("deploy", lease.lease_id)
    return lease


def kinds() -> list[str]:
    return list(Event.objects.filter(lock_name="deploy").order_by("id").values_list("kind", flat=True))


def work_on(name: str) -> None:
    Lock.objects.select_for_update(no_key=True).get(name=name)


# The TTL of a lease that must not expire before the test has reached that point.
SOON = 6


def wait_until_over(lease, other) -> None:
    until(lambda: other.now() > lease.expires_at)


def give_up(future):
    """For the races that end with a rollback."""
    transaction.set_rollback(True)
    return future


class TestAcquire:
    def test_a_lease_renewed_meanwhile_is_held(self, engine, other):
        lease = engine.acquire("deploy", ttl_seconds=SOON, owner="first")
        with transaction.atomic():
            renewed = engine.renew("deploy", lease.lease_id, ttl_seconds=60)
            wait_until_over(lease, other)
            second = other.run_blocked(engine.acquire, "deploy", owner="second")
        answer = second.result(MAX_WAIT)
        assert (answer.verdict, answer.owner, answer.expires_at) == ("held", "first", renewed.expires_at)
        assert kinds() == ["acquired"]

    def test_a_renewal_that_was_rolled_back_does_not_count(self, engine, other):
        lease = engine.acquire("deploy", ttl_seconds=SOON)
        with transaction.atomic():
            engine.renew("deploy", lease.lease_id, ttl_seconds=60)
            wait_until_over(lease, other)
            second = give_up(other.run_blocked(engine.acquire, "deploy"))
        assert second.result(MAX_WAIT).verdict == "acquired"
        assert kinds() == ["acquired", "expired", "acquired"]

    @pytest.mark.parametrize("state", ["free", "expired"])
    def test_the_new_lease_begins_at_the_end_of_the_wait(self, engine, other, request, state):
        request.getfixturevalue(state)
        with transaction.atomic():
            work_on("deploy")
            second = other.run_blocked(engine.acquire, "deploy", ttl_seconds=60)
            while_waiting = other.now()
        lease = second.result(MAX_WAIT)
        assert lease.verdict == "acquired"
        assert lease.acquired_at > while_waiting
        assert (lease.expires_at - lease.acquired_at).total_seconds() == 60

    def test_a_lease_that_began_and_ended_during_the_wait_does_not_count(self, engine, other, free):
        with transaction.atomic():
            engine.acquire("deploy", ttl_seconds=10, owner="first")
            second = other.run_blocked(engine.acquire, "deploy", owner="second")
            pass_seconds(20)
        answer = second.result(MAX_WAIT)
        assert (answer.verdict, answer.owner) == ("acquired", "second")
        assert kinds() == ["acquired", "released", "acquired", "expired", "acquired"]

    def test_a_lease_that_was_taken_during_the_wait_is_held(self, engine, other, free):
        with transaction.atomic():
            first = engine.acquire("deploy", owner="first", metadata="m")
            second = other.run_blocked(engine.acquire, "deploy")
        answer = second.result(MAX_WAIT)
        assert (answer.verdict, answer.owner, answer.metadata) == ("held", "first", "m")
        assert (answer.lease_id, answer.fencing_token) == (None, first.fencing_token)

    def test_a_name_that_became_delayed_during_the_wait_is_delayed(self, engine, other, expired):
        with transaction.atomic():
            lease = engine.acquire("deploy")
            second = other.run_blocked(engine.acquire, "deploy")
            engine.force_release("deploy", expected_fencing_token=lease.fencing_token, lock_delay_seconds=60)
        assert second.result(MAX_WAIT).verdict == "delayed"

    def test_held_is_not_answered_for_a_lease_that_expired_while_the_batch_waited(self, engine, other, free):
        engine.acquire("short", ttl_seconds=1)
        batch = [requests.Acquire(digest=engine.digest, name=name, owner="second") for name in ("deploy", "short")]
        with transaction.atomic():
            work_on("deploy")
            second = other.run_blocked(lambda: run(acquire(batch)))
            time.sleep(1.01)
        assert [answer.verdict for answer in second.result(MAX_WAIT)] == ["acquired", "acquired"]

    def test_a_lease_renewed_while_the_batch_waited_elsewhere_is_not_taken(self, engine, other, free):
        short = engine.acquire("short", ttl_seconds=SOON)
        batch = [requests.Acquire(digest=engine.digest, name=name, owner="second") for name in ("deploy", "short")]
        with concurrent_session() as holder, transaction.atomic():
            work_on("deploy")
            second = other.run_blocked(lambda: run(acquire(batch)))
            renewed = holder.start(engine.renew, "short", short.lease_id, ttl_seconds=60).result(MAX_WAIT)
            wait_until_over(short, other)
        answers = second.result(MAX_WAIT)
        assert [answer.verdict for answer in answers] == ["acquired", "held"]
        assert answers[1].expires_at == renewed.expires_at

    def test_a_retry_that_overtakes_its_original_gets_the_same_lease(self, engine, other, free):
        terms = {"idempotency_digest": "aa" * 32, "request_digest": "bb" * 32}
        with transaction.atomic():
            first = engine.acquire("deploy", **terms)
            retry = other.run_blocked(engine.acquire, "deploy", **terms)
        answer = retry.result(MAX_WAIT)
        assert (answer.verdict, answer.lease_id) == ("recognised", first.lease_id)


class TestNewNames:
    def test_the_second_insert_answers_held_by_the_first(self, engine, other):
        with transaction.atomic():
            first = engine.acquire("deploy", owner="first", metadata="m")
            second = other.run_blocked(engine.acquire, "deploy", owner="second")
        answer = second.result(MAX_WAIT)
        assert (answer.verdict, answer.owner, answer.metadata) == ("held", "first", "m")
        assert answer.fencing_token == first.fencing_token
        assert kinds() == ["acquired"]

    def test_the_second_insert_acquires_if_the_first_is_rolled_back(self, engine, other):
        with transaction.atomic():
            engine.acquire("deploy")
            second = give_up(other.run_blocked(engine.acquire, "deploy", owner="second"))
        answer = second.result(MAX_WAIT)
        assert (answer.verdict, answer.owner) == ("acquired", "second")
        assert answer.expires_at > other.now()
        assert kinds() == ["acquired"]

    def test_a_lease_that_expired_while_its_insert_waited_is_not_granted(self, engine, other):
        with transaction.atomic():
            engine.acquire("deploy")
            second = other.run_blocked(engine.acquire, "deploy", ttl_seconds=1)
            time.sleep(1.01)
            give_up(second)
        answer = second.result(MAX_WAIT)
        assert answer.verdict == "acquired"
        assert answer.expires_at > answer.now
        # The lease that expired at once was returned to no client, but the history has it.
        assert kinds() == ["acquired", "expired", "acquired"]

    def test_held_is_not_answered_for_a_lease_that_expired_while_an_insert_waited(self, engine, other):
        engine.acquire("short", ttl_seconds=1)
        batch = [requests.Acquire(digest=engine.digest, name=name) for name in ("deploy", "short")]
        with transaction.atomic():
            engine.acquire("deploy")
            second = other.run_blocked(lambda: run(acquire(batch)))
            time.sleep(1.01)
        assert [answer.verdict for answer in second.result(MAX_WAIT)] == ["held", "acquired"]

    def test_a_retry_that_overtakes_its_original_gets_the_same_lease(self, engine, other):
        terms = {"idempotency_digest": "aa" * 32, "request_digest": "bb" * 32}
        with transaction.atomic():
            first = engine.acquire("deploy", **terms)
            retry = other.run_blocked(engine.acquire, "deploy", **terms)
        assert retry.result(MAX_WAIT).lease_id == first.lease_id

    def test_two_acquire_alls_of_new_names(self, engine, other):
        with transaction.atomic():
            engine.acquire("b", owner="first")
            second = other.run_blocked(engine.acquire_all, ["c", "b", "a"])
        rows = second.result(MAX_WAIT)
        assert [(row.verdict, row.name, row.is_blocking) for row in rows] == [
            ("held", "c", False),
            ("held", "b", True),
            ("held", "a", False),
        ]

    def test_the_second_claim_next_gets_the_next_new_name(self, engine, other):
        with transaction.atomic():
            assert engine.claim_next(["deploy", "next"]).name == "deploy"
            second = other.run_blocked(engine.claim_next, ["deploy", "next"])
        assert second.result(MAX_WAIT).name == "next"


class TestHolders:
    def test_a_renewal_that_waited_past_the_expiry_revives_nothing(self, engine, other):
        lease = engine.acquire("deploy", ttl_seconds=SOON)
        with transaction.atomic():
            work_on("deploy")
            renewal = other.run_blocked(engine.renew, "deploy", lease.lease_id)
            wait_until_over(lease, other)
        assert renewal.result(MAX_WAIT).verdict == "not_held"
        assert engine.acquire("deploy").verdict == "acquired"

    @pytest.mark.parametrize(
        ("operation", "request_type", "done"),
        [(renew, requests.Renew, "renewed"), (release, requests.Release, "released")],
    )
    def test_a_renewal_that_waited_for_another_row_of_its_batch_revives_nothing(
        self, engine, other, operation, request_type, done
    ):
        leases = [engine.acquire("a", ttl_seconds=SOON), engine.acquire("b")]
        batch = [request_type(digest=engine.digest, name=lease.name, lease_id=lease.lease_id) for lease in leases]
        with transaction.atomic():
            work_on("b")
            second = other.run_blocked(lambda: run(operation(batch)))
            wait_until_over(leases[0], other)
        assert [answer.verdict for answer in second.result(MAX_WAIT)] == [
            "not_held",
            f"{operation.__name__.removesuffix('e')}ed",
        ]

    def test_a_release_that_waited_past_the_expiry_releases_nothing(self, engine, other):
        lease = engine.acquire("deploy", ttl_seconds=SOON)
        with transaction.atomic():
            work_on("deploy")
            release = other.run_blocked(engine.release, "deploy", lease.lease_id)
            wait_until_over(lease, other)
        assert release.result(MAX_WAIT).verdict == "not_held"
        assert kinds() == ["acquired"]

    @pytest.mark.parametrize("verb", ["renew", "release"])
    def test_a_holder_that_was_force_released_meanwhile_has_no_lease(self, engine, other, verb):
        lease = engine.acquire("deploy")
        with transaction.atomic():
            engine.force_release("deploy")
            late = other.run_blocked(getattr(engine, verb), "deploy", lease.lease_id)
        assert late.result(MAX_WAIT).verdict == "not_held"
        assert kinds() == ["acquired", "force_released"]

    @pytest.mark.parametrize("verb", ["renew", "release"])
    def test_a_holder_whose_lock_was_acquired_by_another_meanwhile_gets_held_by_another(self, engine, other, verb):
        lease = engine.acquire("deploy")
        with transaction.atomic():
            engine.release("deploy", lease.lease_id)
            engine.acquire("deploy", owner="next")
            late = other.run_blocked(getattr(engine, verb), "deploy", lease.lease_id)
        assert late.result(MAX_WAIT).verdict == "held_by_another"
        assert engine.inspect("deploy").owner == "next"

    def test_force_release_with_an_expected_fencing_token_spares_a_new_holder(self, engine, other):
        lease = engine.acquire("deploy")
        with transaction.atomic():
            engine.release("deploy", lease.lease_id)
            new = engine.acquire("deploy")
            force = other.run_blocked(engine.force_release, "deploy", expected_fencing_token=lease.fencing_token)
        answer = force.result(MAX_WAIT)
        assert (answer.verdict, answer.fencing_token) == ("fencing_mismatch", new.fencing_token)

    def test_two_release_at_once_and_one_event_is_written(self, engine, other):
        lease = engine.acquire("deploy")
        with transaction.atomic():
            assert engine.release("deploy", lease.lease_id).verdict == "released"
            second = other.run_blocked(engine.release, "deploy", lease.lease_id)
        assert second.result(MAX_WAIT).verdict == "not_held"
        assert kinds() == ["acquired", "released"]


class TestMaintenance:
    """What the sweep and the retention will do to rows while others are at them."""

    def test_an_end_that_was_recorded_meanwhile_is_not_recorded_again(self, engine, other, expired):
        with transaction.atomic():
            assert run(sweep()) == 1
            second = other.run_blocked(engine.acquire, "deploy")
        assert second.result(MAX_WAIT).verdict == "acquired"
        assert kinds() == ["acquired", "expired", "acquired"]

    def test_an_end_that_was_recorded_meanwhile_is_not_recorded_by_claim_next_and_acquire_all(
        self, engine, other, expired
    ):
        with transaction.atomic():
            assert run(sweep()) == 1
            second = other.run_blocked(engine.claim_next, ["deploy"])
        assert second.result(MAX_WAIT).verdict == "acquired"
        pass_seconds(3600)
        with transaction.atomic():
            assert run(sweep()) == 1
            third = other.run_blocked(engine.acquire_all, ["deploy"])
        assert third.result(MAX_WAIT)[0].verdict == "acquired"
        assert kinds() == ["acquired", "expired", "acquired", "expired", "acquired"]

    @pytest.mark.parametrize("verb", ["acquire", "claim_next", "acquire_all"])
    def test_a_row_that_was_removed_meanwhile_is_a_new_name(self, engine, other, free, verb):
        with transaction.atomic():
            Lock.objects.filter(name="deploy").delete()
            second = other.run_blocked(getattr(engine, verb), "deploy" if verb == "acquire" else ["deploy"])
        answer = second.result(MAX_WAIT)
        lease = answer[0] if verb == "acquire_all" else answer
        assert lease.verdict == "acquired"
        assert lease.fencing_token > free.fencing_token
        assert kinds() == ["acquired", "released", "acquired"]

    def test_acquire_all_includes_a_name_whose_row_was_removed_meanwhile(self, engine, other, free):
        engine.release("next", engine.acquire("next").lease_id)
        with transaction.atomic():
            Lock.objects.filter(name="deploy").delete()
            both = other.run_blocked(engine.acquire_all, ["deploy", "next"])
        rows = both.result(MAX_WAIT)
        assert {row.verdict for row in rows} == {"acquired"}
        assert [engine.renew(row.name, row.lease_id).verdict for row in rows] == ["renewed", "renewed"]

    @pytest.mark.parametrize("verb", ["renew", "release"])
    def test_an_expired_row_that_was_removed_meanwhile_is_no_lease(self, engine, other, expired, verb):
        with transaction.atomic():
            Lock.objects.filter(name="deploy").delete()
            late = other.run_blocked(getattr(engine, verb), "deploy", expired.lease_id)
        assert late.result(MAX_WAIT).verdict == "not_held"


class TestClaimNext:
    def test_a_name_whose_row_is_locked_is_skipped(self, engine, other, free):
        with transaction.atomic():
            work_on("deploy")
            assert other.start(engine.claim_next, ["deploy", "next"]).result(MAX_WAIT).name == "next"

    def test_the_last_free_name_is_waited_for(self, engine, other, free):
        with transaction.atomic():
            work_on("deploy")
            claim = other.run_blocked(engine.claim_next, ["deploy"])
        assert claim.result(MAX_WAIT).verdict == "acquired"

    def test_held_is_answered_only_once_the_last_name_is_taken(self, engine, other, free):
        with transaction.atomic():
            first = engine.acquire("deploy")
            claim = other.run_blocked(engine.claim_next, ["deploy"])
        answer = claim.result(MAX_WAIT)
        assert (answer.verdict, answer.available_at) == ("held", first.expires_at)


class TestAcquireAll:
    def test_all_leases_begin_after_the_wait_for_the_last_row(self, engine, other, free):
        engine.release("next", engine.acquire("next").lease_id)
        with transaction.atomic():
            work_on("next")
            both = other.run_blocked(engine.acquire_all, ["deploy", "next"], ttl_seconds=60)
            while_waiting = other.now()
        rows = both.result(MAX_WAIT)
        assert {row.verdict for row in rows} == {"acquired"}
        assert all(row.acquired_at > while_waiting for row in rows)

    def test_nothing_is_acquired_if_one_name_was_taken_meanwhile(self, engine, other, free):
        with transaction.atomic():
            engine.acquire("deploy", owner="first")
            both = other.run_blocked(engine.acquire_all, ["a", "deploy"])
        rows = both.result(MAX_WAIT)
        assert [(row.verdict, row.is_blocking, row.owner) for row in rows] == [
            ("held", False, None),
            ("held", True, "first"),
        ]
        assert engine.inspect("a").verdict == "free"
