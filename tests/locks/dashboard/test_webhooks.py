"""Webhooks in the dashboard: created with a secret shown once, tested, paused, replayed, deleted; and who may not."""

import re

import pytest
from django.http import HttpResponse
from django.test import Client

from locks.events.webhooks.encryption import decrypt
from locks.models import Delivery, Event, Webhook
from locks.services import webhooks
from locks.services.audit import Actor

pytestmark = pytest.mark.django_db

URL = "https://hooks.example/in"
KINDS = ["acquired", "released", "expired", "force_released"]


@pytest.fixture
def url(now_url) -> str:
    return now_url + "webhooks"


@pytest.fixture
def hook(space) -> Webhook:
    return webhooks.create(actor=Actor.of_shell(), space=space, url=URL, kinds=["expired"], prefix="jobs/")[1]


def secret_on(reply: HttpResponse) -> str:
    (secret,) = set(re.findall(r"whsec_[\w-]+", reply.content.decode()))
    return secret


def kinds() -> list[str]:
    return list(Event.objects.filter(kind__startswith="webhook").order_by("id").values_list("kind", flat=True))


def test_an_admin_creates_a_webhook_and_sees_its_secret_once(visit, alice, url) -> None:
    browser: Client = visit(alice)
    assert "No webhooks yet" in browser.get(url).content.decode()
    reply = browser.post(f"{url}/new", {"url": URL, "kinds": KINDS, "starts_with": "jobs/"})
    assert reply.status_code == 200
    assert "no-store" in reply["Cache-Control"]
    made = Webhook.objects.get()
    assert decrypt(made.secret) == secret_on(reply)
    assert (made.url, made.kinds, made.prefix, made.created_by) == (URL, [], "jobs/", "alice")
    event = Event.objects.get(kind="webhook_created")
    assert (event.actor_name, event.channel) == ("alice", "web")
    for path in (url, f"{url}/{made.public_id}"):
        shown = browser.get(path).content.decode()
        assert URL in shown
        assert "whsec_" not in shown


@pytest.mark.parametrize(
    ("filled_in", "error"),
    [
        ({"url": "", "kinds": KINDS}, "Enter a URL."),
        ({"url": "http://127.0.0.1/", "kinds": KINDS}, "The address is private"),
        ({"url": "ftp://example.com", "kinds": KINDS}, "The URL must begin with https://"),
        ({"url": URL}, "Select at least one."),
    ],
)
def test_each_invalid_field_gets_an_error(visit, alice, url, filled_in, error) -> None:
    reply = visit(alice).post(f"{url}/new", filled_in)
    assert reply.status_code == 422
    assert error in reply.content.decode()
    assert not Webhook.objects.exists()


def test_it_is_changed_paused_resumed_tested_rotated_and_deleted(visit, alice, url, hook) -> None:
    browser = visit(alice)
    own = f"{url}/{hook.public_id}"
    assert 'value="https://hooks.example/in"' in browser.get(f"{own}/change").content.decode()
    changed = browser.post(f"{own}/change", {"url": URL + "/2", "kinds": ["released"], "starts_with": ""})
    assert changed["Location"] == own
    for act, says in [("pause", "Paused"), ("test", "none yet"), ("resume", "Delivering")]:
        assert browser.post(f"{own}/{act}")["Location"] == own
        if act == "test":
            Webhook.objects.update(last_claimed_at="2026-01-01T00:00Z")
        assert says in browser.get(own).content.decode()
    old = decrypt(hook.secret)
    rotated = browser.post(f"{own}/rotate", {"overlap": "3600"})
    assert "a second <code>v1</code>" in rotated.content.decode()
    hook.refresh_from_db()
    assert (decrypt(hook.secret), decrypt(hook.previous_secret)) == (secret_on(rotated), old)
    assert (hook.url, hook.kinds, hook.prefix) == (URL + "/2", ["released"], "")
    assert "Delete this webhook" in browser.get(f"{own}/delete").content.decode()
    assert browser.post(f"{own}/delete")["Location"] == url
    assert browser.get(own).status_code == 404
    assert kinds() == [
        "webhook_created", "webhook_changed", "webhook_paused", "webhook_tested", "webhook_resumed",
        "webhook_secret_rotated", "webhook_deleted",
    ]  # fmt: skip
    log = browser.get(url.replace("webhooks", "team/activity")).content.decode()
    assert "created the webhook to https://hooks.example/in" in log
    for verb in ("changed", "paused", "resumed", "deleted", "rotated the secret of", "tested"):
        assert f"alice {verb} the webhook" in log


def test_deliveries_show_their_attempts_and_are_replayed(visit, alice, url, hook) -> None:
    browser = visit(alice)
    own = f"{url}/{hook.public_id}"
    for number in range(3):
        webhooks.send_test(actor=Actor.of_shell(), webhook=hook).log.create(
            number=1,
            duration_ms=1234,
            status=None if number else 503,
            error="Connection refused." if number else None,
        )
    first = Delivery.objects.order_by("id").first()
    first.log.create(number=2, duration_ms=20, status=500)
    shown = browser.get(own).content.decode()
    assert shown.count("Connection refused.") == 2
    assert re.search(r"503\s+<span class=\"ago\">1.2 s", shown)
    assert "every 2s" in shown
    Delivery.objects.update(status="dead", finished_at="2026-01-01T00:00Z")
    failed = browser.get(own + "?status=dead").content.decode()
    assert failed.count('id="delivery-') == 3
    assert "every 2s" not in failed
    assert browser.get(own + "?status=delivered").content.decode().count('id="delivery-') == 0
    assert browser.post(f"{own}/deliveries/{first.public_id}/replay")["Location"] == own
    assert Delivery.objects.filter(status="pending").count() == 1
    browser.post(f"{own}/replay")
    assert Delivery.objects.filter(status="pending").count() == 3
    assert browser.post(f"{own}/deliveries/00000000-0000-4000-8000-000000000000/replay").status_code == 404


@pytest.mark.parametrize("path", ["", "/new", "/{id}", "/{id}/change", "/{id}/rotate", "/{id}/delete"])
def test_only_admins_of_the_team_see_webhooks(visit, olga, victor, bob, url, hook, path) -> None:
    path = url + path.format(id=hook.public_id)
    assert visit(olga).get(path).status_code == 403
    assert visit(victor).get(path).status_code == 403
    assert visit(bob).get(path).status_code == 404
    assert Client().get(path).status_code == 302


@pytest.mark.parametrize("act", ["test", "pause", "resume", "replay", "rotate", "delete", "change"])
def test_only_admins_of_the_team_change_webhooks(visit, olga, bob, url, hook, act) -> None:
    own = f"{url}/{hook.public_id}/{act}"
    assert visit(olga).post(own).status_code == 403
    assert visit(bob).post(own).status_code == 404
    assert kinds() == ["webhook_created"]
    assert not Delivery.objects.exists()


def test_a_webhook_of_another_space_is_not_found(visit, alice, root, red_space, url, hook) -> None:
    theirs = webhooks.create(actor=Actor.of_shell(), space=red_space, url=URL)[1]
    assert visit(alice).get(f"{url}/{theirs.public_id}").status_code == 404
    assert visit(root).get(f"{url}/{theirs.public_id}").status_code == 404
    assert visit(root).get(f"{url}/{hook.public_id}").status_code == 200


def test_the_number_of_webhooks_is_limited(visit, alice, url, hook, monkeypatch) -> None:
    monkeypatch.setattr(webhooks, "MAX_WEBHOOKS_PER_SPACE", 1)
    reply = visit(alice).post(f"{url}/new", {"url": URL, "kinds": KINDS})
    assert reply.status_code == 409
    assert "Delete one first" in reply.content.decode()
