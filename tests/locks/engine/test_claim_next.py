"""Claim-next: the first of a list of names that is free."""

from datetime import timedelta

import pytest

from locks.models import Event, Lock
from tests.locks.engine.time_travel import pass_seconds

pytestmark = pytest.mark.django_db

KEY = {"idempotency_digest": "aa" * 32, "request_digest": "bb" * 32}


def kinds() -> list[tuple[str, str]]:
    return list(Event.objects.filter(lock_name__isnull=False).order_by("id").values_list("kind", "lock_name"))


@pytest.mark.parametrize("used_before", [False, True])
def test_the_first_free_name_in_the_order_of_the_list_is_claimed(engine, used_before):
    if used_before:
        for lease in engine.acquire_all(["a", "m", "z"]):
            engine.release(lease.name, lease.lease_id)
    for expected in ("z", "a", "m"):
        lease = engine.claim_next(["z", "a", "m"], owner="runner", metadata="x", ttl_seconds=30)
        assert (lease.verdict, lease.name, lease.owner, lease.metadata) == ("acquired", expected, "runner", "x")
        assert lease.expires_at - lease.acquired_at == timedelta(seconds=30)
    assert engine.claim_next(["z", "a", "m"]).verdict == "held"
    assert kinds()[-3:] == [("acquired", "z"), ("acquired", "a"), ("acquired", "m")]


def test_names_that_were_used_before_and_new_ones_count_alike(engine):
    lease = engine.acquire("used")
    engine.release("used", lease.lease_id)
    assert engine.claim_next(["new", "used"]).name == "new"
    assert engine.claim_next(["new", "used"]).name == "used"


def test_no_row_is_made_for_a_name_that_was_not_claimed(engine):
    engine.claim_next(["a", "b", "c"])
    assert list(Lock.objects.values_list("name", flat=True)) == ["a"]


def test_when_all_are_held_the_answer_has_the_earliest_availability(engine):
    engine.acquire("a", ttl_seconds=300)
    soonest = engine.acquire("b", ttl_seconds=100)
    engine.acquire("c", ttl_seconds=90, lock_delay_seconds=60)
    answer = engine.claim_next(["a", "b", "c"])
    assert (answer.verdict, answer.name, answer.lease_id) == ("held", None, None)
    assert answer.available_at == soonest.expires_at


def test_a_delayed_name_is_skipped(engine):
    lease = engine.acquire("a", lock_delay_seconds=30)
    engine.release("a", lease.lease_id)
    assert engine.claim_next(["a", "b"]).name == "b"
    assert engine.claim_next(["a"]).verdict == "held"


def test_an_expired_lease_is_taken_over_and_its_end_recorded_first(engine):
    old = engine.acquire("a", ttl_seconds=10, owner="old")
    pass_seconds(20)
    new = engine.claim_next(["a", "b"])
    assert (new.name, new.fencing_token > old.fencing_token) == ("a", True)
    assert kinds() == [("acquired", "a"), ("expired", "a"), ("acquired", "a")]
    expired = Event.objects.get(kind="expired")
    assert (expired.owner, expired.fencing_token, expired.held_ms) == ("old", old.fencing_token, 10_000)


def test_a_retry_gets_the_lease_it_has(engine):
    first = engine.claim_next(["a", "b"], **KEY)
    retry = engine.claim_next(["a", "b"], **KEY)
    assert (retry.verdict, retry.name, retry.lease_id) == ("recognised", "a", first.lease_id)
    assert (retry.fencing_token, retry.expires_at) == (first.fencing_token, first.expires_at)
    assert kinds() == [("acquired", "a")]


def test_a_retry_gets_its_lease_even_if_an_earlier_name_is_free_by_now(engine):
    held = engine.acquire("a")
    first = engine.claim_next(["a", "b"], **KEY)
    engine.release("a", held.lease_id)
    assert engine.claim_next(["a", "b"], **KEY).lease_id == first.lease_id


def test_a_reused_key_with_another_body_is_refused(engine):
    engine.claim_next(["a", "b"], **KEY)
    other = engine.claim_next(["a", "b"], **{**KEY, "request_digest": "cc" * 32})
    assert other.verdict == "idempotency_conflict"
    assert kinds() == [("acquired", "a")]


def test_a_name_may_be_in_the_list_twice(engine):
    assert engine.claim_next(["a", "a", "b"]).name == "a"
    assert engine.claim_next(["a", "a", "b"]).name == "b"
    assert engine.claim_next(["a", "a", "b"]).verdict == "held"


def test_a_thousand_names(engine):
    names = [f"job-{number}" for number in range(1000)]
    engine.acquire_all(names[:999])
    assert engine.claim_next(names).name == "job-999"
