"""Sensitive actions ask for the password again, and nothing that was typed is lost."""

import re

import pytest

from locks.models import Event
from tests.conftest import PASSWORD
from tests.locks.dashboard.test_force_release import form

pytestmark = pytest.mark.django_db

DIALOG = {"HX-Request": "true", "HX-Target": "dialog"}


@pytest.fixture
def url(now_url):
    return now_url + "locks/job/force-release"


def fields(text: str) -> dict[str, str]:
    """The hidden fields of the form."""
    return dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', text))


def test_within_fifteen_minutes_of_sign_in_it_does_not_ask(worker, visit, olga, url):
    held = worker.takes("job")
    assert "Confirm it is you" not in visit(olga).get(url).content.decode()
    assert visit(olga).post(url, form(held)).status_code == 200
    assert not Event.objects.filter(kind="confirmed").exists()


def test_later_the_page_comes_after_the_password(worker, later, olga, url):
    worker.takes("job")
    browser = later(olga)
    asked = browser.get(url)
    assert (asked.status_code, "You signed in as olga more than" in asked.content.decode()) == (403, True)
    reply = browser.post("/ui/confirm", {**fields(asked.content.decode()), "confirm_password": PASSWORD})
    assert (reply.status_code, reply["Location"]) == (302, url)
    assert "Force-release from" in browser.get(url).content.decode()
    event = Event.objects.get(kind="confirmed")
    assert (event.actor_id, event.detail) == (olga.pk, {"method": "password"})


def test_an_interrupted_form_goes_through_as_it_was_typed(worker, later, olga, url):
    held = worker.takes("job")
    browser = later(olga)
    asked = browser.post(url, form(held, reason='its "host" is <gone>'))
    assert asked.status_code == 403
    assert worker.renews("job", held.lease_id) == "renewed"
    wrong = browser.post(url, {**form(held), "reason": 'its "host" is <gone>', "confirm_password": "wrong"})
    text = wrong.content.decode()
    assert (wrong.status_code, "Incorrect password" in text) == (403, True)
    assert "wrong" not in text.replace("note-bad", "")
    carried = fields(text)
    assert carried["fencing_token"] == str(held.fencing_token)
    assert carried["reason"] == "its &quot;host&quot; is &lt;gone&gt;"
    done = browser.post(url, {**form(held, reason='its "host" is <gone>'), "confirm_password": PASSWORD})
    assert done.status_code == 200
    assert Event.objects.get(kind="force_released").reason == 'its "host" is <gone>'
    assert [event.kind for event in Event.objects.filter(kind__startswith="confirm").order_by("id")] == [
        "confirmation_failed", "confirmed",
    ]  # fmt: skip


def test_in_a_dialog_it_asks_and_continues_there(worker, later, olga, url):
    held = worker.takes("job")
    browser = later(olga)
    asked = browser.get(url, headers=DIALOG)
    text = asked.content.decode()
    assert (asked.status_code, "<html" in text, asked["HX-Retarget"]) == (200, False, "#dialog")
    assert 'hx-post="/ui/confirm"' in text
    wrong = browser.post("/ui/confirm", {**fields(text), "confirm_password": "wrong"}, headers=DIALOG)
    assert (wrong.status_code, fields(wrong.content.decode())["confirm_next"]) == (200, url)
    right = browser.post("/ui/confirm", {**fields(text), "confirm_password": PASSWORD}, headers=DIALOG)
    assert f'hx-get="{url}"' in right.content.decode()
    assert "was force-released from" in browser.post(url, form(held), headers=DIALOG).content.decode()


def test_elsewhere_in_a_page_it_opens_the_dialog_and_sends_a_plain_form(worker, later, olga, url):
    held = worker.takes("job")
    asked = later(olga).post(url, form(held), headers={"HX-Request": "true", "HX-Target": "live-content"})
    assert (asked.status_code, asked["HX-Retarget"]) == (200, "#dialog")
    assert "hx-post" not in asked.content.decode()


def test_it_does_not_ask_if_the_lock_is_free(worker, later, olga, url):
    held = worker.takes("job")
    worker.gives_back("job", held.lease_id)
    assert "not held any more" in later(olga).get(url).content.decode()


def test_it_does_not_ask_users_without_the_permission(worker, later, victor, bob, url):
    worker.takes("job")
    assert "No permission" in later(victor).get(url).content.decode()
    assert later(bob).get(url).status_code == 404


def test_confirming_takes_a_post_of_a_signed_in_user_and_redirects_to_this_site_only(client, later, olga):
    assert client.post("/ui/confirm", {"confirm_password": PASSWORD}).status_code == 302
    assert later(olga).get("/ui/confirm").status_code == 405
    reply = later(olga).post("/ui/confirm", {"confirm_password": PASSWORD, "confirm_next": "https://evil.example/"})
    assert reply["Location"] == "/ui/"
