"""Many requests in one statement: each is answered as if it had come alone, in its turn."""

from datetime import timedelta
from uuid import uuid4

import pytest

from locks.engine import requests
from locks.engine.execution import run
from locks.engine.operations import acquire, force_release, inspect, release, renew
from locks.models import Event, Lock, Space
from tests.conftest import issue
from tests.locks.engine.conftest import Engine
from tests.locks.engine.time_travel import pass_seconds

pytestmark = pytest.mark.django_db

A_THOUSAND = [f"job-{number:04}" for number in range(1000)]


def verdicts(answers) -> list[str]:
    return [answer.verdict for answer in answers]


def acquire_each(engine: Engine, names: list[str], **terms):
    return run(acquire([requests.Acquire(digest=engine.digest, name=name, **terms) for name in names]))


def renew_each(engine: Engine, leases, **terms):
    batch = [
        requests.Renew(digest=engine.digest, name=lease.name, lease_id=lease.lease_id, **terms) for lease in leases
    ]
    return run(renew(batch))


def release_each(engine: Engine, leases):
    batch = [requests.Release(digest=engine.digest, name=lease.name, lease_id=lease.lease_id) for lease in leases]
    return run(release(batch))


def events() -> list[tuple[str, str]]:
    return list(Event.objects.filter(lock_name__isnull=False).order_by("id").values_list("kind", "lock_name"))


def test_an_empty_batch_has_no_results(engine):
    assert run(acquire([])) == []
    assert run(renew([])) == []


def test_answers_come_in_the_order_of_the_requests(engine):
    names = ["m", "z", "a", "b/c", "B", "é"]
    assert [lease.name for lease in acquire_each(engine, names)] == names
    assert [lock.name for lock in run(inspect([requests.Inspect(digest=engine.digest, name=n) for n in names]))] \
        == names  # fmt: skip


def test_events_are_recorded_in_the_order_of_the_requests(engine):
    acquire_each(engine, ["m", "z", "a"])
    assert events() == [("acquired", "m"), ("acquired", "z"), ("acquired", "a")]


def test_the_first_request_for_a_name_wins_and_the_others_get_held(engine):
    first, second, third = run(
        acquire(
            [requests.Acquire(digest=engine.digest, name="deploy", owner=owner) for owner in ("one", "two", "three")]
        )
    )
    assert (first.verdict, first.owner) == ("acquired", "one")
    for loser in (second, third):
        assert (loser.verdict, loser.owner, loser.fencing_token) == ("held", "one", first.fencing_token)
        assert loser.lease_id is None
    assert events() == [("acquired", "deploy")]


def test_the_first_request_for_an_expired_name_wins_too(engine):
    engine.acquire("deploy", ttl_seconds=10, owner="old")
    pass_seconds(20)
    assert verdicts(acquire_each(engine, ["deploy", "deploy"])) == ["acquired", "held"]
    assert events() == [("acquired", "deploy"), ("expired", "deploy"), ("acquired", "deploy")]


def test_takeovers_are_recorded_request_by_request(engine):
    engine.acquire_all(["a", "b"], ttl_seconds=10)
    pass_seconds(20)
    acquire_each(engine, ["b", "a"])
    assert events()[2:] == [("expired", "b"), ("acquired", "b"), ("expired", "a"), ("acquired", "a")]


def test_a_retry_beside_its_original_gets_the_same_lease(engine):
    terms = {"idempotency_digest": "aa" * 32, "request_digest": "bb" * 32}
    first, *retries = acquire_each(engine, ["deploy"] * 200, **terms)
    assert first.verdict == "acquired"
    assert {(retry.verdict, retry.lease_id) for retry in retries} == {("recognised", first.lease_id)}
    assert events() == [("acquired", "deploy")]


def test_requests_recognised_in_one_batch_all_get_the_longest_expiry(engine, space):
    Space.objects.filter(pk=space.pk).update(octostore_compatibility=True)
    lease = engine.acquire("deploy", ttl_seconds=10, metadata="m")
    kept = run(
        acquire(
            [
                requests.Acquire(digest=engine.digest, name="deploy", metadata="m", ttl_seconds=ttl_seconds)
                for ttl_seconds in (5, 100, 20)
            ]
        )
    )
    assert {(answer.verdict, answer.lease_id) for answer in kept} == {("recognised", lease.lease_id)}
    (expires_at,) = {answer.expires_at for answer in kept}
    assert expires_at > lease.expires_at + timedelta(seconds=80)
    assert Lock.objects.get().expires_at == expires_at


def test_a_recognised_request_does_not_shorten_a_renewed_lease(engine, space):
    Space.objects.filter(pk=space.pk).update(octostore_compatibility=True)
    lease = engine.acquire("deploy", ttl_seconds=100)
    assert engine.acquire("deploy", ttl_seconds=1).verdict == "recognised"
    renewed = engine.renew("deploy", lease.lease_id)
    assert renewed.expires_at >= lease.expires_at


def test_renewals_of_one_lease_count_in_their_order(engine):
    lease = engine.acquire("deploy", ttl_seconds=10)
    answers = run(
        renew(
            [
                requests.Renew(digest=engine.digest, name="deploy", lease_id=lease.lease_id, ttl_seconds=ttl_seconds)
                for ttl_seconds in (100, 300, 200)
            ]
        )
    )
    assert verdicts(answers) == ["renewed"] * 3
    assert {answer.fencing_token for answer in answers} == {lease.fencing_token}
    assert answers[0].expires_at < answers[2].expires_at < answers[1].expires_at
    assert engine.inspect("deploy").expires_at == answers[2].expires_at


def test_a_thousand_renewals_of_one_lease_are_answered_at_once(engine):
    lease = engine.acquire("deploy")
    assert set(verdicts(renew_each(engine, [lease] * 1000))) == {"renewed"}


def test_of_several_releases_the_first_counts(engine):
    lease = engine.acquire("deploy")
    assert verdicts(release_each(engine, [lease] * 3)) == ["released", "not_held", "not_held"]
    assert events() == [("acquired", "deploy"), ("released", "deploy")]


def test_of_several_force_releases_the_first_with_the_expected_fencing_token_counts(engine):
    lease = engine.acquire("deploy")
    right, wrong = lease.fencing_token, lease.fencing_token - 1
    answers = run(
        force_release(
            [
                requests.ForceRelease(
                    digest=engine.digest, name="deploy", reason=f"{turn}", expected_fencing_token=expected
                )
                for turn, expected in enumerate((wrong, wrong, right, None, wrong))
            ]
        )
    )
    assert verdicts(answers) == ["fencing_mismatch", "fencing_mismatch", "released", "not_held", "not_held"]
    (event,) = Event.objects.filter(kind="force_released")
    assert [answer.event_id for answer in answers] == [None, None, event.pk, None, None]
    assert event.reason == "2"


def test_callers_and_refusals_mix_in_one_batch(engine, space, red_space, worker_token):
    stranger = Engine(issue(red_space, "stranger", "locks:read", "locks:write"))
    reader = Engine(issue(space, "reader", "locks:read"))
    narrow = Engine(issue(space, "narrow", "locks:write", prefixes=["ci/"]))
    worker = Engine(worker_token)
    batch = [
        requests.Acquire(digest=engine.digest, name="deploy", owner="first"),
        requests.Acquire(digest="ab" * 32, name="deploy"),
        requests.Acquire(digest=stranger.digest, name="deploy", owner="stranger"),
        requests.Acquire(digest=reader.digest, name="deploy"),
        requests.Acquire(digest=narrow.digest, name="deploy"),
        requests.Acquire(digest=narrow.digest, name="ci/deploy"),
        requests.Acquire(digest=worker.digest, name="deploy", ttl_seconds=10**9),
        requests.Acquire(digest=worker.digest, name="deploy", metadata="x" * 1025),
        requests.Acquire(digest=worker.digest, name="deploy"),
    ]
    answers = run(acquire(batch))
    assert verdicts(answers) == [
        "acquired", "unauthenticated", "acquired", "scope_missing", "name_not_allowed", "acquired", "ttl_too_long",
        "metadata_too_long", "held",
    ]  # fmt: skip
    assert [answers[index].owner for index in (0, 2, 8)] == ["first", "stranger", "first"]
    assert Event.objects.filter(kind="acquired").count() == Lock.objects.count() == 3


def test_a_refusal_says_nothing_about_the_holder(engine, space):
    engine.acquire("deploy", owner="secret", metadata="secret")
    narrow = Engine(issue(space, "narrow", "locks:write", "locks:read", "locks:force", prefixes=["ci/"]))
    answers = [
        narrow.acquire("deploy"), narrow.inspect("deploy"), narrow.force_release("deploy"),
        *narrow.acquire_all(["deploy"]), narrow.claim_next(["deploy"]),
    ]  # fmt: skip
    for answer in answers:
        assert answer.verdict == "name_not_allowed"
        assert (answer.owner, answer.metadata, answer.fencing_token) == (None, None, None)


def test_a_thousand_names_at_once(engine):
    leases = acquire_each(engine, A_THOUSAND)
    assert verdicts(leases) == ["acquired"] * 1000
    assert len({lease.lease_id for lease in leases}) == 1000
    assert verdicts(renew_each(engine, reversed(leases))) == ["renewed"] * 1000
    assert verdicts(acquire_each(engine, A_THOUSAND)) == ["held"] * 1000
    assert verdicts(release_each(engine, leases)) == ["released"] * 1000
    assert [event for event in events() if event[0] == "released"] == [("released", name) for name in A_THOUSAND]
    again = acquire_each(engine, A_THOUSAND)
    assert verdicts(again) == ["acquired"] * 1000
    assert all(new.fencing_token > old.fencing_token for new, old in zip(again, leases, strict=True))


def test_each_renewal_of_a_batch_has_its_own_verdict(engine):
    expired = engine.acquire("expired", ttl_seconds=10)
    pass_seconds(20)
    held, released = acquire_each(engine, ["held", "released"], ttl_seconds=60)
    release_each(engine, [released])
    answers = run(
        renew(
            [
                requests.Renew(digest=engine.digest, name=name, lease_id=lease_id, ttl_seconds=ttl_seconds)
                for name, lease_id, ttl_seconds in (
                    ("expired", expired.lease_id, None),
                    ("held", held.lease_id, None),
                    ("released", released.lease_id, None),
                    ("held", uuid4(), None),
                    ("never", uuid4(), None),
                    ("held", held.lease_id, 10**9),
                )
            ]
        )
    )
    assert verdicts(answers) == ["not_held", "renewed", "not_held", "held_by_another", "not_held", "ttl_too_long"]
    assert [answer.fencing_token for answer in answers] == [None, held.fencing_token, None, None, None, None]


def test_renewals_work_after_the_clock_was_set_back(engine, space, worker_token):
    Space.objects.filter(pk=space.pk).update(octostore_compatibility=True)
    lease = engine.acquire("deploy", ttl_seconds=10, metadata="m")
    pass_seconds(-3600)
    expires_at = engine.inspect("deploy").expires_at
    assert engine.renew("deploy", lease.lease_id, ttl_seconds=10).expires_at >= expires_at
    assert engine.acquire("deploy", ttl_seconds=10, metadata="m").expires_at >= expires_at
    assert type(engine)(worker_token).acquire("deploy", metadata="m").verdict == "held"
    assert engine.release("deploy", lease.lease_id).verdict == "released"
