"""Force-release: works, is refused, finds another state."""

import pytest

from locks.models import Event, Lock
from tests.locks.dashboard.test_now import age

pytestmark = pytest.mark.django_db


@pytest.fixture
def url(now_url):
    return now_url + "locks/job/force-release"


def form(held, **changes):
    return {
        "fencing_token": held.fencing_token, "reason": "host is dead", "lock_delay_seconds": 0, "typed_name": "job",
        **changes,
    }  # fmt: skip


def test_an_operator_frees_a_lock_and_the_history_says_who_and_why(worker, visit, olga, url):
    held = worker.takes("job", owner="runner-7")
    reply = visit(olga).post(url, form(held))
    assert reply.status_code == 200
    event = Event.objects.get(kind="force_released")
    assert (event.actor_kind, event.actor_id, event.actor_name) == ("user", olga.pk, "olga")
    assert (event.channel, event.reason, event.owner) == ("web", "host is dead", "runner-7")
    assert event.request_id == reply["X-Request-Id"]
    assert f"/activity/{event.pk}" in reply.content.decode()
    assert worker.renews("job", held.lease_id) == "not_held"


def test_a_cooldown_can_be_chosen(worker, visit, olga, url):
    visit(olga).post(url, form(worker.takes("job"), lock_delay_seconds=30))
    assert Lock.objects.get().available_at is not None


def test_a_viewer_is_refused_and_others_find_nothing(worker, visit, victor, bob, url):
    held = worker.takes("job")
    assert visit(victor).get(url).status_code == 403
    reply = visit(victor).post(url, form(held))
    assert reply.status_code == 403
    assert "No permission" in reply.content.decode()
    assert visit(bob).post(url, form(held)).status_code == 404
    assert worker.renews("job", held.lease_id) == "renewed"


def test_nothing_happens_when_the_lock_has_a_new_holder(worker, visit, olga, url):
    seen = worker.takes("job", owner="runner-7")
    worker.gives_back("job", seen.lease_id)
    now = worker.takes("job", owner="runner-9")
    reply = visit(olga).post(url, form(seen))
    text = reply.content.decode()
    assert reply.status_code == 409
    assert "Nothing was released" in text
    assert "runner-9" in text
    assert worker.renews("job", now.lease_id) == "renewed"
    assert not Event.objects.filter(kind="force_released").exists()


def test_nothing_happens_when_it_is_free_already(worker, visit, olga, url):
    held = worker.takes("job")
    worker.gives_back("job", held.lease_id)
    assert visit(olga).post(url, form(held)).status_code == 409
    assert "not held any more" in visit(olga).get(url).content.decode()


def test_a_reason_is_required(worker, visit, olga, url):
    held = worker.takes("job")
    reply = visit(olga).post(url, form(held, reason="  "))
    assert reply.status_code == 422
    assert "Enter a reason" in reply.content.decode()
    assert worker.renews("job", held.lease_id) == "renewed"


def test_the_name_is_typed_while_the_holder_is_alive_and_not_afterwards(worker, visit, olga, url):
    held = worker.takes("job", ttl_seconds=60)
    assert visit(olga).post(url, form(held, typed_name="jbo")).status_code == 422
    age("job", seconds=50)
    assert visit(olga).post(url, form(held, typed_name="")).status_code == 200


@pytest.mark.parametrize("wrong", [{"fencing_token": ""}, {"fencing_token": "x"}, {"lock_delay_seconds": "61"}])
def test_a_tampered_form_releases_nothing(worker, visit, olga, url, wrong):
    held = worker.takes("job")
    assert visit(olga).post(url, form(held, **wrong)).status_code == 422
    assert worker.renews("job", held.lease_id) == "renewed"


def test_in_the_dialog_every_answer_is_a_part_and_arrives(worker, visit, olga, url):
    held = worker.takes("job")
    headers = {"HX-Request": "true", "HX-Target": "dialog"}
    reply = visit(olga).post(url, form(held, reason=""), headers=headers)
    assert (reply.status_code, "<html" in reply.content.decode()) == (200, False)
    reply = visit(olga).post(url, form(held), headers=headers)
    assert (reply.status_code, "was force-released from" in reply.content.decode()) == (200, True)


def test_a_form_without_its_token_is_refused_with_a_page(worker, olga, url):
    from django.test import Client

    held = worker.takes("job")
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(olga)
    reply = browser.post(url, form(held))
    assert (reply.status_code, "out of date" in reply.content.decode()) == (403, True)


def test_a_conflict_says_who_released_it_when_and_why(worker, visit, olga, alice, url):
    held = worker.takes("job", owner="runner-7")
    visit(alice).post(url, form(held, reason="I was first", lock_delay_seconds=60))
    end = Event.objects.get(kind="force_released")
    reply = visit(olga).post(url, form(held))
    text = " ".join(reply.content.decode().split())
    assert reply.status_code == 409
    assert "alice force-released it from runner-7 after" in text
    assert "I was first" in text
    assert f"/activity/{end.pk}" in text
    assert "cooling down for another" in text
    assert "it was released or it expired" not in text


def test_a_conflict_with_a_new_holder_says_how_the_hold_before_ended(worker, visit, olga, alice, url):
    held = worker.takes("job", owner="runner-7")
    visit(alice).post(url, form(held, reason="I was first"))
    worker.takes("job", owner="runner-9")
    text = " ".join(visit(olga).post(url, form(held)).content.decode().split())
    assert "alice force-released it from runner-7 after" in text
    assert "has a new holder: <b><bdi>runner-9</bdi></b>" in text
