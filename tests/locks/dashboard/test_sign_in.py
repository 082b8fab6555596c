"""Signing in and out, and the redirects to sign-in and back."""

import pytest

from locks.models import Event
from tests.conftest import PASSWORD

pytestmark = pytest.mark.django_db

URL = "/ui/sign-in"


@pytest.mark.parametrize("name", ["alice", "ALICE", "alice@example.com", " Alice@Example.com "])
def test_name_or_address_in_any_case_lets_in_and_back(client, alice, space, name):
    reply = client.get("/ui/blue/main/?q=deploy")
    assert reply.status_code == 302
    assert reply["Location"] == "/ui/sign-in?next=%2Fui%2Fblue%2Fmain%2F%3Fq%3Ddeploy"
    reply = client.post(URL, {"name": name, "password": PASSWORD, "next": "/ui/blue/main/?q=deploy"})
    assert (reply.status_code, reply["Location"]) == (302, "/ui/blue/main/?q=deploy")
    event = Event.objects.get(kind="signed_in")
    assert (event.actor_name, event.actor_id, event.channel) == ("alice", alice.pk, "web")
    assert event.request_id == reply["X-Request-Id"]


@pytest.mark.parametrize(
    ("name", "password"), [("alice", "wrong"), ("unknown", PASSWORD), ("al\0ice", PASSWORD), ("", "")]
)
def test_an_unknown_name_and_a_wrong_password_get_the_same_answer(client, alice, name, password):
    reply = client.post(URL, {"name": name, "password": password})
    assert reply.status_code == 422
    assert "Incorrect name or password" in reply.content.decode()
    assert "_auth_user_id" not in client.session


def test_a_failure_is_recorded_without_what_was_typed(client, alice):
    client.post(URL, {"name": "alice", "password": "wrong"})
    client.post(URL, {"name": "my secret typed into the wrong field", "password": "wrong"})
    events = Event.objects.filter(kind="sign_in_failed").order_by("id")
    assert [(event.actor_name, event.actor_id) for event in events] == [("alice", alice.pk), ("unknown", None)]


def test_a_deactivated_account_cannot_sign_in(client, alice):
    alice.is_active = False
    alice.save()
    assert client.post(URL, {"name": "alice", "password": PASSWORD}).status_code == 422


@pytest.mark.parametrize(
    "where",
    ["https://evil.example/", "//evil.example/", "javascript:alert(1)", "/\\evil.example", "nowhere", "admin:index"],
)
def test_the_redirect_stays_on_this_site(client, alice, where):
    assert client.post(URL, {"name": "alice", "password": PASSWORD, "next": where})["Location"] == "/ui/"
    assert client.get(URL, {"next": where})["Location"] == "/ui/"


def test_signing_out_is_recorded_and_takes_a_post(visit, alice):
    browser = visit(alice)
    assert browser.get("/ui/sign-out").status_code == 405
    assert browser.post("/ui/sign-out")["Location"] == "/ui/sign-in"
    assert browser.get("/ui/").status_code == 302
    assert Event.objects.filter(kind="signed_out", actor_id=alice.pk).count() == 1


def test_a_refresh_of_a_signed_out_page_leads_the_whole_page_to_sign_in(client, space):
    reply = client.get(
        "/ui/blue/main/",
        headers={
            "HX-Request": "true",
            "HX-Target": "live-content",
            "HX-Current-URL": "http://testserver/ui/blue/main/?q=a",
        },
    )
    assert reply["HX-Redirect"] == "/ui/sign-in?next=%2Fui%2Fblue%2Fmain%2F%3Fq%3Da"


def test_an_invalid_current_url_still_leads_to_sign_in(client, space):
    reply = client.get("/ui/blue/main/", headers={"HX-Request": "true", "HX-Current-URL": "http://["})
    assert reply["HX-Redirect"] == "/ui/sign-in?next="


def test_home_leads_to_the_only_space(visit, alice, space):
    browser = visit(alice)
    assert browser.get("/")["Location"] == "/ui/"
    assert browser.get("/ui/")["Location"] == "/ui/blue/main/"
    assert browser.get("/ui/blue/")["Location"] == "/ui/blue/main/"


def test_the_theme_is_kept_in_a_cookie(visit, alice, space, now_url):
    browser = visit(alice)
    browser.post("/ui/theme", {"theme": "dark", "next": now_url})
    assert 'data-theme="dark"' in browser.get(now_url).content.decode()
    browser.post("/ui/theme", {"theme": '"><script>', "next": now_url})
    assert 'data-theme="dark"' in browser.get(now_url).content.decode()
