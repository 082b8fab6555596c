"""Acquire-all: every name of a list, or none."""

from datetime import timedelta

import pytest

from locks.models import Event, Lock, Space
from tests.locks.engine.time_travel import pass_seconds

pytestmark = pytest.mark.django_db

KEY = {"idempotency_digest": "aa" * 32, "request_digest": "bb" * 32}


def kinds() -> list[tuple[str, str]]:
    return list(Event.objects.filter(lock_name__isnull=False).order_by("id").values_list("kind", "lock_name"))


def test_all_names_are_acquired_together_in_the_order_given(engine):
    leases = engine.acquire_all(["z", "a", "B"], ttl_seconds=30, owner="runner", metadata="x")
    assert [lease.name for lease in leases] == ["z", "a", "B"]
    assert {(lease.verdict, lease.owner, lease.metadata) for lease in leases} == {("acquired", "runner", "x")}
    assert len({lease.lease_id for lease in leases}) == 3
    assert {lease.expires_at - lease.acquired_at for lease in leases} == {timedelta(seconds=30)}
    assert len({lease.acquired_at for lease in leases}) == 1
    assert kinds() == [("acquired", "z"), ("acquired", "a"), ("acquired", "B")]


def test_one_held_name_blocks_all_and_nothing_is_changed(engine):
    holder = engine.acquire("b", owner="holder")
    before = list(Lock.objects.values())
    rows = engine.acquire_all(["a", "b", "c"])
    assert [(row.verdict, row.name, row.is_blocking) for row in rows] == [
        ("held", "a", False), ("held", "b", True), ("held", "c", False),
    ]  # fmt: skip
    assert (rows[1].owner, rows[1].fencing_token) == ("holder", holder.fencing_token)
    assert [row.lease_id for row in rows] == [None, None, None]
    assert list(Lock.objects.values()) == before
    assert kinds() == [("acquired", "b")]


def test_a_delayed_name_blocks_too(engine):
    lease = engine.acquire("b", lock_delay_seconds=30)
    engine.release("b", lease.lease_id)
    rows = engine.acquire_all(["a", "b"])
    assert [(row.verdict, row.is_blocking) for row in rows] == [("held", False), ("held", True)]
    assert rows[1].available_at > rows[1].now


def test_expired_leases_are_taken_over_each_with_its_end_recorded_first(engine):
    engine.acquire_all(["a", "b"], ttl_seconds=10)
    pass_seconds(20)
    assert engine.acquire_all(["b", "c", "a"])[0].verdict == "acquired"
    assert kinds() == [
        ("acquired", "a"), ("acquired", "b"),
        ("expired", "b"), ("acquired", "b"), ("acquired", "c"), ("expired", "a"), ("acquired", "a"),
    ]  # fmt: skip


def test_a_retry_gets_the_leases_it_has(engine):
    first = engine.acquire_all(["a", "b"], **KEY)
    retry = engine.acquire_all(["a", "b"], **KEY)
    assert {row.verdict for row in retry} == {"recognised"}
    assert [row.lease_id for row in retry] == [row.lease_id for row in first]
    assert kinds() == [("acquired", "a"), ("acquired", "b")]


def test_a_reused_key_with_another_body_is_refused(engine):
    engine.acquire_all(["a", "b"], **KEY)
    rows = engine.acquire_all(["a", "b"], **{**KEY, "request_digest": "cc" * 32})
    assert [(row.verdict, row.lease_id) for row in rows] == [("idempotency_conflict", None)] * 2


def test_a_retry_that_has_lost_some_leases_is_blocked_by_the_rest(engine):
    engine.acquire_all(["a", "b"], **KEY)
    engine.force_release("b")
    rows = engine.acquire_all(["a", "b"], **KEY)
    assert [(row.verdict, row.is_blocking) for row in rows] == [("held", True), ("held", False)]


def test_with_octostore_compatibility_the_same_token_keeps_its_leases(engine, space, worker_token):
    first = engine.acquire("a", metadata="run 7")
    Space.objects.filter(pk=space.pk).update(octostore_compatibility=True)
    assert type(engine)(worker_token).acquire_all(["a", "b"], metadata="run 7")[0].verdict == "held"
    session = engine.open_session().session_id
    assert engine.acquire_all(["a", "b"], metadata="run 7", session_id=session)[0].verdict == "held"
    own, new = engine.acquire_all(["a", "b"], metadata="run 8")
    assert (own.verdict, own.lease_id, new.verdict) == ("acquired", first.lease_id, "acquired")


def test_a_refusal_marks_the_names_it_is_about(engine, space):
    space.tokens.update(prefixes=["ci/"])
    rows = engine.acquire_all(["ci/a", "deploy"])
    assert [(row.verdict, row.is_allowed, row.is_blocking) for row in rows] == [
        ("name_not_allowed", True, False), ("name_not_allowed", False, False),
    ]  # fmt: skip
    assert not Lock.objects.exists()


def test_renewing_and_releasing_them_is_like_any_other_lease(engine):
    first, second = engine.acquire_all(["a", "b"])
    assert engine.renew("a", first.lease_id).verdict == "renewed"
    assert engine.release("b", second.lease_id).verdict == "released"
    assert engine.acquire("b").fencing_token > second.fencing_token
