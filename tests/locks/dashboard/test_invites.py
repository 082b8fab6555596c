"""Invitations: shown once, valid for one person, through a link whose code is never in a URL that the server sees."""

import hashlib
import re

import pytest
from django.db.models import F
from django.test import Client

from locks.models import Event, Invite, Membership, User
from tests.conftest import PASSWORD

pytestmark = pytest.mark.django_db

NEW = {"username": "erin", "email": "erin@example.com", "password": PASSWORD}


@pytest.fixture
def url(now_url):
    return now_url + "team/invites"


@pytest.fixture
def code(visit, alice, url) -> str:
    reply = visit(alice).post(f"{url}/new", {"role": "operator", "days": 7, "note": "Erin"})
    assert reply.status_code == 200
    assert "no-store" in reply["Cache-Control"]
    return re.search(r"/ui/join#(octo_invite_[0-9a-f]{48})", reply.content.decode())[1]


def redeem(browser: Client, code: str):
    return browser.post("/ui/join", {"code": code})


def test_the_code_is_kept_as_a_digest_and_listed_nowhere(visit, alice, code, now_url):
    invite = Invite.objects.get()
    assert bytes(invite.digest) == hashlib.sha256(code.encode()).digest()
    text = visit(alice).get(now_url + "team").content.decode()
    assert "Erin" in text
    assert code not in text
    event = Event.objects.get(kind="invite_created")
    assert code not in str(event.detail)
    assert (event.actor_name, event.detail["role"]) == ("alice", "operator")


def test_a_user_with_an_account_joins_and_the_link_is_used_up(visit, bob, code, blue):
    browser = visit(bob)
    assert redeem(browser, f"http://testserver/ui/join#{code}")["Location"] == "/ui/join/accept"
    page = browser.get("/ui/join/accept")
    assert page["Referrer-Policy"] == "same-origin"
    assert "Join as bob" in page.content.decode()
    assert browser.post("/ui/join/accept")["Location"] == "/ui/blue/"
    assert Membership.objects.get(user=bob, team=blue).role == "operator"
    event = Event.objects.get(kind="member_joined")
    assert (event.detail["person"], event.detail["role"], event.detail["invited_by"]) == ("bob", "operator", "alice")
    assert redeem(Client(), code).status_code == 422
    assert browser.post("/ui/join/accept").status_code == 409


def test_a_new_account_is_created_and_the_password_rules_hold(code, blue):
    browser = Client()
    redeem(browser, code)
    weak = browser.post("/ui/join/accept", {**NEW, "password": "12345678"})
    assert weak.status_code == 422
    assert "too common" in weak.content.decode()
    assert not User.objects.filter(username="erin").exists()
    assert browser.post("/ui/join/accept", NEW)["Location"] == "/ui/blue/"
    assert browser.get("/ui/blue/main/").status_code == 200
    erin = User.objects.get(username="erin")
    assert Membership.objects.get(user=erin, team=blue).role == "operator"
    assert Event.objects.get(kind="member_joined").detail["new_account"] is True
    assert PASSWORD not in str(list(Event.objects.values_list("detail", flat=True)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"username": "ALICE"}, "This name is taken"),
        ({"email": "Alice@Example.com"}, "This address is taken"),
        ({"username": "a b"}, "Enter a valid username"),
        ({"email": "nowhere"}, "valid email"),
    ],
)
def test_what_cannot_be_an_account(code, changes, message):
    browser = Client()
    redeem(browser, code)
    reply = browser.post("/ui/join/accept", {**NEW, **changes})
    assert reply.status_code == 422
    assert message in reply.content.decode()
    assert Invite.objects.get().accepted_at is None


def test_signing_in_leads_back_to_the_invitation(code, bob, blue):
    browser = Client()
    redeem(browser, code)
    signed = browser.post("/ui/sign-in", {"name": "bob", "password": PASSWORD, "next": "/ui/join/accept"})
    assert signed["Location"] == "/ui/join/accept"
    browser.post("/ui/join/accept")
    assert Membership.objects.filter(user=bob, team=blue).exists()


@pytest.mark.parametrize("wrong", ["", "nonsense", "octo_invite_" + "0" * 48, "octo_invite_\0"])
def test_every_wrong_code_gets_one_answer(code, wrong):
    reply = redeem(Client(), wrong)
    assert reply.status_code == 422
    assert "used, revoked or has expired" in reply.content.decode()


def test_an_expired_or_revoked_link_does_nothing(visit, alice, bob, code, url):
    browser = visit(bob)
    redeem(browser, code)
    Invite.objects.update(expires_at=F("created_at"))
    assert browser.post("/ui/join/accept").status_code == 409
    assert redeem(Client(), code).status_code == 422
    Invite.objects.update(expires_at="2100-01-01T00:00:00Z")
    redeem(browser, code)
    visit(alice).post(f"{url}/{Invite.objects.get().pk}/revoke")
    assert browser.post("/ui/join/accept").status_code == 409
    again = visit(alice).post(f"{url}/{Invite.objects.get().pk}/revoke", follow=True)
    assert "used or revoked already" in again.content.decode()
    assert Event.objects.filter(kind="invite_revoked").count() == 1


def test_a_member_does_not_use_up_an_invitation(visit, victor, code):
    browser = visit(victor)
    redeem(browser, code)
    assert browser.post("/ui/join/accept")["Location"] == "/ui/blue/"
    assert Membership.objects.get(user=victor).role == "viewer"
    assert Invite.objects.get().accepted_at is None


def test_without_a_code_there_is_nothing_to_accept():
    assert Client().get("/ui/join/accept").status_code == 409
    assert Client().get("/ui/join")["Referrer-Policy"] == "same-origin"


def test_only_admins_invite(visit, olga, bob, alice, code, url, red_space):
    assert visit(olga).get(f"{url}/new").status_code == 403
    invite = Invite.objects.get()
    assert visit(olga).post(f"{url}/{invite.pk}/revoke").status_code == 403
    visit(bob).post(f"/ui/red/main/team/invites/{invite.pk}/revoke")
    invite.refresh_from_db()
    assert invite.revoked_at is None
    assert visit(alice).post(f"{url}/new", {"role": "king", "days": 7}).status_code == 422


@pytest.mark.parametrize("lost", ["is_active", "is_superuser"])
def test_a_deactivated_or_demoted_user_cannot_come_back_by_their_own_invitation(visit, root, alice, olga, url, lost):
    Membership.objects.filter(user=olga).update(role="admin")
    inviter = olga if lost == "is_active" else User.objects.create_superuser("sue")
    shown = visit(inviter).post(f"{url}/new", {"role": "admin", "days": 30}).content.decode()
    code = re.search(r"octo_invite_[0-9a-f]{48}", shown)[0]
    guest = Client()
    assert redeem(guest, code).status_code == 302
    form = {"username": inviter.username, "date_joined_0": "2026-01-01", "date_joined_1": "00:00:00", "is_active": "on"}
    if lost == "is_active":
        del form["is_active"]
    assert visit(root).post(f"/admin/locks/user/{inviter.pk}/change/", form).status_code == 302
    assert guest.post("/ui/join/accept", NEW).status_code == 409
    assert redeem(Client(), code).status_code == 422
    assert not User.objects.filter(username="erin").exists()
    event = Event.objects.get(kind="invite_revoked")
    assert (event.actor_name, event.detail["role"]) == ("root", "admin")
    # Nor is it valid again with the account.
    visit(root).post(f"/admin/locks/user/{inviter.pk}/change/", form | {"is_active": "on", "is_superuser": "on"})
    assert redeem(Client(), code).status_code == 422


def test_a_link_is_valid_only_while_its_creator_is_an_admin(alice, code):
    """Whether deactivated or demoted."""
    User.objects.filter(pk=alice.pk).update(is_active=False)
    assert redeem(Client(), code).status_code == 422
    User.objects.filter(pk=alice.pk).update(is_active=True)
    Membership.objects.filter(user=alice).update(role="operator")
    assert redeem(Client(), code).status_code == 422
    Membership.objects.filter(user=alice).update(role="admin")
    assert redeem(Client(), code).status_code == 302
