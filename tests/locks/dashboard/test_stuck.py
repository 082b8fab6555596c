"""Stuck: locks that need attention, with the reasons, and snoozing them."""

from datetime import timedelta

import pytest
from django.db import connection

from locks.engine.execution import run
from locks.events.history.hold_baselines import compute_hold_baselines, purge_hold_baselines
from locks.models import Event, HoldBaseline, Lock, Snooze, Token, Waiter
from locks.services import tokens
from locks.services.audit import Actor
from locks.services.stuck import count_stuck
from tests.locks.dashboard.test_now import age

pytestmark = pytest.mark.django_db


@pytest.fixture
def url(now_url):
    return now_url + "stuck"


def reasons(reply) -> dict[str, list[str]]:
    return {stuck.lock.name: [reason.value for reason, _ in described] for stuck, described in reply.context["items"]}


def sentences(reply) -> str:
    return " ".join(sentence for _, described in reply.context["items"] for _, sentence in described)


def renewed_ago(name: str, *, seconds: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE octo_lock SET renewed_at = now() - make_interval(secs => %s) WHERE name = %s", [seconds, name]
        )


def past_holds(name: str, *minutes: int) -> None:
    lock = Lock.objects.get(name=name)
    for place, each in enumerate(minutes):
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO octo_event (at, kind, space_id, lock_name, actor_kind, actor_name, channel, held_ms) "
                "VALUES (now() - make_interval(days => 1, secs => %s), 'released', %s, %s, 'token', 'w', 'api', %s)",
                [place, lock.space_id, name, each * 60_000],
            )


def test_a_healthy_lock_is_not_stuck(worker, visit, victor, url):
    worker.takes("job")
    reply = visit(victor).get(url)
    assert reasons(reply) == {}
    assert "Nothing is stuck" in reply.content.decode()


def test_overdue(worker, visit, victor, url):
    worker.takes("job", ttl_seconds=60)
    age("job", seconds=90)
    reply = visit(victor).get(url)
    assert reasons(reply) == {"job": ["overdue"]}
    assert sentences(reply).startswith("Expired 3")
    assert "not reclaimed" in sentences(reply)


@pytest.mark.parametrize(("field", "word"), [("revoked_at", "was revoked"), ("expires_at", "expired")])
def test_a_token_that_ended_while_it_holds(worker, visit, victor, url, field, word):
    worker.takes("job", ttl_seconds=600)
    Token.objects.update(**{field: Lock.objects.get().acquired_at})
    reply = visit(victor).get(url)
    assert reasons(reply) == {"job": ["invalid_token"]}
    assert f"Its token worker {word}" in sentences(reply)
    assert "it expires in 9 min" in sentences(reply)


def test_what_a_replaced_token_took_is_not_stuck_while_its_successor_is_good(worker, visit, victor, url, now_url):
    worker.takes("job", ttl_seconds=600)
    _, successor = tokens.rotate(actor=Actor.of_shell(), token=Token.objects.get(), overlap=timedelta(0))
    browser = visit(victor)
    assert reasons(browser.get(url)) == {}
    assert "invalid-token" not in browser.get(now_url + "owners").content.decode()
    tokens.revoke(actor=Actor.of_shell(), token=successor)
    assert reasons(browser.get(url)) == {"job": ["invalid_token"]}
    assert "invalid-token" in browser.get(now_url + "owners").content.decode()


def test_past_the_max_hold(worker, space, visit, victor, url):
    worker.takes("job", ttl_seconds=600)
    worker.takes("young", ttl_seconds=600)
    age("job", seconds=120)
    space.max_hold_seconds = 60
    space.save()
    reply = visit(victor).get(url)
    assert reasons(reply) == {"job": ["max_hold"]}
    assert "longer than this space allows" in sentences(reply)


def test_held_far_longer_than_usual(worker, visit, victor, url):
    for name, holds in (("late", (2, 3, 2, 3, 4, 2)), ("slow", (50, 60, 55, 50, 45)), ("new", (1, 1))):
        worker.takes(name, ttl_seconds=7200)
        age(name, seconds=1800)
        past_holds(name, *holds)
    worker.takes("fresh", ttl_seconds=7200)
    assert run(compute_hold_baselines()) == 3
    assert run(compute_hold_baselines()) == 0, "a hold gets its baseline once"
    reply = visit(victor).get(url)
    assert reasons(reply) == {"late": ["long_hold"]}
    assert "; its last 6 holds: p50 2 min 00 s, p90 4 min 00 s." in sentences(reply)


def test_the_next_hold_gets_its_own_baseline_and_old_baselines_are_purged(worker, visit, victor, url):
    held = worker.takes("late", ttl_seconds=7200)
    age("late", seconds=1800)
    past_holds("late", 1, 1, 1, 1, 1)
    run(compute_hold_baselines())
    worker.gives_back("late", held.lease_id)
    worker.takes("late", ttl_seconds=7200)
    assert reasons(visit(victor).get(url)) == {}
    run(purge_hold_baselines())
    assert not HoldBaseline.objects.exists()


def test_not_renewed_where_others_of_the_same_holder_were(worker, visit, victor, url):
    for name in ("kept", "forgotten"):
        worker.takes(name, owner="runner-1", ttl_seconds=600)
        age(name, seconds=400)
    worker.takes("alone", owner="runner-2", ttl_seconds=600)
    age("alone", seconds=400)
    renewed_ago("kept", seconds=3)
    reply = visit(victor).get(url)
    assert reasons(reply) == {"forgotten": ["not_renewed"]}
    assert "while runner-1 renewed its other lock" in sentences(reply)


def test_many_waiting(worker, visit, victor, url, space):
    for name, number in (("crowded", 5), ("quiet", 4)):
        worker.takes(name)
        for _ in range(number):
            Waiter.objects.create(
                space=space, name=name, token=Token.objects.get(), owner="w", deadline_at="2999-01-01T00:00Z"
            )
    reply = visit(victor).get(url)
    assert reasons(reply) == {"crowded": ["long_queue"]}
    assert "5 waiting, the first for" in sentences(reply)


def test_a_reason_can_be_asked_for_and_each_says_how_many(worker, visit, victor, url):
    worker.takes("over", ttl_seconds=60)
    age("over", seconds=90)
    worker.takes("dead", ttl_seconds=600)
    Token.objects.update(revoked_at=Lock.objects.get(name="dead").acquired_at)
    everything = visit(victor).get(url)
    assert list(reasons(everything)) == ["over", "dead"], "the worst first"
    numbers = {reason.value: number for reason, number in everything.context["inbox"].by_reason.items() if number}
    assert numbers == {"overdue": 1, "invalid_token": 2}
    assert list(reasons(visit(victor).get(url + "?reason=overdue"))) == ["over"]
    assert list(reasons(visit(victor).get(url + "?reason=nonsense&page=x"))) == ["over", "dead"]
    assert visit(victor).get(url + "?page=99").context["inbox"].total == 2


@pytest.fixture
def stuck(worker):
    held = worker.takes("deploy/api", owner="runner-1", ttl_seconds=600)
    Token.objects.update(revoked_at=Lock.objects.get().acquired_at)
    return held


def note(held, **changes):
    return {"fencing_token": held.fencing_token, "hours": 4, "note": "Ada knows", **changes}


def test_snoozed_with_a_note_until_a_time_and_taken_back(stuck, visit, olga, victor, url, now_url):
    browser = visit(olga)
    assert "Ada" not in browser.get(now_url + "snooze/deploy/api").content.decode()
    assert browser.post(now_url + "snooze/deploy/api", note(stuck)).status_code == 302
    reply = visit(victor).get(url)
    assert (reasons(reply), reply.context["inbox"].snoozed) == ({}, 1)
    shown = visit(victor).get(url + "?show=snoozed").content.decode()
    assert "Snoozed by <b>olga</b>" in shown
    assert "Ada knows" in shown
    event = Event.objects.get(kind="snoozed")
    assert (event.lock_name, event.owner, event.reason, event.actor_name) == (
        "deploy/api", "runner-1", "Ada knows", "olga",
    )  # fmt: skip
    assert browser.post(now_url + "end-snooze/deploy/api", {"fencing_token": stuck.fencing_token}).status_code == 302
    assert list(reasons(visit(victor).get(url))) == ["deploy/api"]
    assert Event.objects.filter(kind="snooze_ended", actor_name="olga").exists()
    again = browser.post(now_url + "end-snooze/deploy/api", {"fencing_token": stuck.fencing_token})
    assert again.status_code == 404


def test_a_snooze_ends_with_its_time_and_with_its_holder(stuck, visit, olga, victor, url, now_url):
    visit(olga).post(now_url + "snooze/deploy/api", note(stuck))
    Snooze.objects.update(until="2020-01-01T00:00Z")
    assert list(reasons(visit(victor).get(url))) == ["deploy/api"]
    Snooze.objects.update(until="2999-01-01T00:00Z", fencing_token=stuck.fencing_token - 1)
    assert list(reasons(visit(victor).get(url))) == ["deploy/api"], "it was for another holder"


def test_only_operators_can_snooze(stuck, visit, victor, bob, now_url):
    for verb, form in (("snooze", note(stuck)), ("end-snooze", {"fencing_token": stuck.fencing_token})):
        assert visit(victor).post(f"{now_url}{verb}/deploy/api", form).status_code == 403
        assert visit(bob).post(f"{now_url}{verb}/deploy/api", form).status_code == 404
    assert visit(bob).get(now_url + "stuck").status_code == 404
    assert "Snooze" not in visit(victor).get(now_url + "stuck").content.decode().replace("Snoozed", "")
    assert not Snooze.objects.exists()


def test_a_snooze_needs_a_note_and_the_holder_that_was_shown(stuck, visit, olga, now_url):
    snooze = now_url + "snooze/deploy/api"
    assert visit(olga).post(snooze, note(stuck, note=" ")).status_code == 422
    assert visit(olga).post(snooze, note(stuck, hours=5)).status_code == 422
    other = visit(olga).post(snooze, note(stuck, fencing_token=stuck.fencing_token - 1))
    assert (other.status_code, "has a new holder" in other.content.decode()) == (409, True)
    assert visit(olga).get(now_url + "snooze/nothing").status_code == 404


def test_the_navigation_has_the_number_on_every_page(stuck, visit, olga, victor, url, now_url):
    assert count_stuck() == 1
    assert visit(victor).get(now_url).context["space_context"].stuck == 1
    visit(olga).post(now_url + "snooze/deploy/api", note(stuck))
    assert count_stuck() == 0
    assert visit(victor).get(now_url).context["space_context"].stuck == 0
    assert visit(victor).get(url).context["space_context"].stuck == 0


def test_everything_listed_can_be_released_at_once(stuck, visit, olga, now_url):
    from locks.models import BulkRelease

    visit(olga).post(now_url + "releases/prepare", {"all": "stuck", "reason": "invalid_token"})
    batch = BulkRelease.objects.get()
    assert batch.selection_label == "all stuck locks: token no longer valid"
    assert list(batch.rows.values_list("lock_name", "fencing_token")) == [("deploy/api", stuck.fencing_token)]


def test_the_number_in_the_navigation_is_the_same_on_every_page(stuck, visit, victor, url, now_url):
    browser = visit(victor)
    assert browser.get(url).context["space_context"].stuck == 1
    for page in ("", "locks/deploy/api", "activity", "contention"):
        assert '<b class="badge" id="badge-stuck">1</b>' in browser.get(now_url + page).content.decode()
