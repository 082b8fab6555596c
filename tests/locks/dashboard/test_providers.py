"""Signing in through GitHub and OpenID Connect, with all redirects, on a real server."""

import os
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import requests
from allauth.account.models import EmailAddress
from allauth.socialaccount.models import SocialAccount
from django.db import connection

from locks.models import Event, Invite, Membership, Role, Team, User
from locks.services import invites, social_accounts
from locks.services.audit import Actor
from tests import database
from tests.servers import RunningServer, running_server
from tests.stand_in_provider import CLIENT_ID, CLIENT_SECRET, Provider, stand_in_provider

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with stand_in_provider() as running:
        yield running


@pytest.fixture(scope="module")
def served(provider: Provider, django_db_setup: None, django_db_blocker: Any, tmp_path_factory: Any):
    """One server for all of it, on this worker's database. Each test has people of its own."""
    secret = tmp_path_factory.mktemp("secrets") / "oidc"
    secret.write_text(CLIENT_SECRET + "\n")
    configured = {
        "OCTO_GITHUB_CLIENT_ID": CLIENT_ID, "OCTO_GITHUB_CLIENT_SECRET": CLIENT_SECRET,
        "OCTO_GITHUB_URL": provider.url, "OCTO_OIDC_ISSUER": provider.url, "OCTO_OIDC_CLIENT_ID": CLIENT_ID,
        "OCTO_OIDC_CLIENT_SECRET_FILE": str(secret), "OCTO_OIDC_NAME": "Harbor SSO",
        "OCTO_SIGN_UP_DOMAINS": "harbor.example",
    }  # fmt: skip
    with django_db_blocker.unblock():
        with running_server(os.environ["DATABASE_URL"], **configured) as server:
            yield server
        connection.close()
        database.clean(connection.settings_dict["NAME"])


@pytest.fixture(autouse=True)
def _afresh(provider: Provider, django_db_blocker: Any) -> Iterator[None]:
    provider.person, provider.id_token_claims, provider.refuses = {}, {}, False
    provider.asked.clear()
    with django_db_blocker.unblock():
        yield


class Browser:
    """Follows forms and links as a browser does, cookies included."""

    def __init__(self, server: RunningServer) -> None:
        self.url = server.url
        self.session = requests.Session()

    def get(self, path: str) -> requests.Response:
        return self.session.get(self.url + path)

    def post(self, path: str, **fields: str) -> requests.Response:
        shown = self.get("/ui/account").text
        token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', shown)
        return self.session.post(self.url + path, {"csrfmiddlewaretoken": token[1], **fields}, allow_redirects=True)

    def sign_in(self, way: str, **fields: str) -> requests.Response:
        return self.follow(self.post(f"/ui/sign-in/{way}", **fields))

    def follow(self, redirect_page: requests.Response) -> requests.Response:
        assert redirect_page.status_code == 200, redirect_page.text
        onward = re.search(r'http-equiv="refresh" content="0;url=([^"]+)"', redirect_page.text)
        assert onward, redirect_page.text
        return self.session.get(onward[1].replace("&amp;", "&"))

    @property
    def who(self) -> str | None:
        found = re.search("You sign in as <b>([^<]+)</b>", self.get("/ui/account").text)
        return found[1] if found else None


@pytest.fixture
def browser(served: RunningServer) -> Iterator[Browser]:
    opened = Browser(served)
    yield opened
    opened.session.close()


def openid(sub: str, email: str, *, verified: Any = True, **more: Any) -> dict[str, Any]:
    return {"sub": sub, "email": email, "email_verified": verified, "preferred_username": sub, **more}


def github(number: int, login: str, *addresses: tuple[str, bool]) -> dict[str, Any]:
    emails = [{"email": email, "verified": verified, "primary": not i} for i, (email, verified) in enumerate(addresses)]
    return {"id": number, "login": login, "name": login.title(), "email": None, "emails": emails}


def vouch(way: str, name: str, address: str) -> dict[str, Any]:
    return openid(name, address) if way == "openid" else github(len(name) * 1000, name, (address, True))


def person(name: str, *, vouched: bool = False) -> User:
    user = User.objects.create_user(name, f"{name}@blue.example", password=None)
    if vouched:
        social_accounts.mark_email_verified(user)
    return user


@pytest.mark.parametrize("way", ["openid", "github"])
def test_an_unknown_person_is_refused(provider, browser, way):
    address = "mallory@elsewhere.example"
    provider.person = vouch(way, "mallory", address)
    reply = browser.sign_in(way)
    assert (reply.status_code, "No account" in reply.text) == (403, True)
    assert browser.who is None
    assert not User.objects.filter(email=address).exists()
    assert Event.objects.filter(kind="sign_in_failed").latest("id").detail == {"method": way, "because": "unknown"}


@pytest.mark.parametrize("way", ["openid", "github"])
def test_an_account_with_a_verified_address_is_signed_in_and_connected(provider, browser, way):
    user = person(f"ada-{way}", vouched=True)
    provider.person = vouch(way, user.username, user.email.upper())
    browser.sign_in(way, next="/ui/account")
    assert browser.who == user.username
    assert SocialAccount.objects.get(user=user).provider == way
    kinds = [(event.kind, event.detail) for event in Event.objects.filter(actor_id=user.pk).order_by("id")]
    assert kinds == [("account_connected", {"provider": way}), ("signed_in", {"methods": [way]})]
    # From now on by the account there, whatever its address.
    provider.person |= {"email": "new@elsewhere.example", "emails": []}
    browser.session.cookies.clear()
    browser.sign_in(way)
    assert browser.who == user.username


def test_an_address_that_was_only_typed_in_links_no_account(provider, browser):
    user = person("vera")
    provider.person = openid("someone", user.email)
    assert browser.sign_in("openid").status_code == 403
    user.email = "vera@harbor.example"
    user.save()
    provider.person = openid("someone", user.email)
    reply = browser.sign_in("openid")
    assert (reply.status_code, "Sign in with your password first" in reply.text) == (403, True)
    assert not SocialAccount.objects.filter(user=user).exists()


@pytest.mark.parametrize("verified", [False, "false", None, "no"])
def test_an_address_that_the_provider_has_not_verified_links_no_account(provider, browser, verified):
    user = person(f"nils-{type(verified).__name__}-{verified}", vouched=True)
    provider.person = openid("nils", user.email, verified=verified)
    reply = browser.sign_in("openid")
    assert (reply.status_code, "No verified address" in reply.text) == (403, True)
    assert browser.who is None


def test_an_open_domain_creates_an_account_without_a_team(provider, browser):
    provider.person = openid("grace", "grace@harbor.example", given_name="Grace")
    browser.sign_in("openid")
    assert browser.who == "grace"
    user = User.objects.get(username="grace")
    assert (user.email, user.first_name, user.has_usable_password()) == ("grace@harbor.example", "Grace", False)
    assert "You are not in a team yet" in browser.get("/ui/").text
    assert Event.objects.get(kind="person_added", actor_id=user.pk).detail == {"through": "openid"}
    provider.person = openid("eve", "eve@harbor.example.evil.example")
    assert Browser.sign_in(browser, "openid").status_code == 403


def test_names_that_are_taken_get_a_number(provider, browser):
    person("kim")
    provider.person = openid("KIM", "kim@harbor.example")
    browser.sign_in("openid")
    assert browser.who == "KIM-2"


def _invitation(slug: str) -> tuple[str, Invite]:
    team = Team.objects.create(slug=slug, name=slug.title())
    admin = person(f"admin-of-{slug}")
    Membership.objects.create(team=team, user=admin, role=Role.ADMIN)
    return invites.create(
        actor=Actor.of_shell(), by=admin, team=team, role=Role.OPERATOR, lifetime=timedelta(days=1), note=""
    )


def test_an_invited_person_signs_in_and_joins(provider, served):
    code, invite = _invitation("navy")
    team = invite.team
    provider.person = github(77, "ida", ("ida@elsewhere.example", True))
    invited = Browser(served)
    shown = invited.post("/ui/join", code=code)
    assert "Join with GitHub" in shown.text
    assert invited.sign_in("github", invited="yes").status_code == 200
    assert invited.who == "ida"
    assert Membership.objects.get(team=team, user__username="ida").role == Role.OPERATOR
    assert Event.objects.get(kind="member_joined", team_id=team.pk).detail["new_account"] is True
    invited.session.close()


def test_an_invitation_that_was_used_meanwhile_is_refused(provider, browser):
    code, invite = _invitation("teal")
    provider.person = github(78, "ivo", ("ivo@elsewhere.example", True))
    browser.post("/ui/join", code=code)
    redirect_page = browser.post("/ui/sign-in/github", invited="yes")
    invite.delete()
    assert "This invitation is no longer valid" in browser.follow(redirect_page).text
    assert not User.objects.filter(username="ivo").exists()


def test_an_id_token_and_userinfo_of_different_subjects_are_refused(provider, browser):
    user = person("theo", vouched=True)
    provider.person = openid("theo", user.email)
    provider.id_token_claims = {"sub": "mallory"}
    assert browser.sign_in("openid").status_code == 502
    assert browser.who is None


@pytest.mark.parametrize("claims", [{"iss": "https://evil.example"}, {"aud": "another client"}, {"exp": 1}])
def test_an_id_token_for_another_client_is_refused(provider, browser, claims):
    provider.person = openid("grete", "grete@harbor.example")
    provider.id_token_claims = claims
    assert browser.sign_in("openid").status_code == 502
    assert browser.who is None


def test_cancelling_at_the_provider_changes_nothing(provider, browser):
    provider.refuses = True
    assert "Sign-in cancelled" in browser.sign_in("openid").text


def test_an_unrequested_answer_is_refused(browser):
    for way in ("github", "openid"):
        assert browser.get(f"/ui/sign-in/{way}/callback?code=x&state=made-up").status_code == 502
    assert browser.get("/ui/sign-in/elsewhere/callback?code=x&state=y").status_code == 404
    assert browser.get("/ui/sign-in/github").status_code == 405


def test_connect_disconnect_and_the_only_sign_in_method(provider, browser, served):
    provider.person = openid("lea", "lea@harbor.example")
    browser.sign_in("openid")
    user = User.objects.get(username="lea")
    first = SocialAccount.objects.get(user=user)
    reply = browser.post(f"/ui/account/connections/{first.pk}")
    assert "your only sign-in method" in reply.text
    provider.person = github(99, "lea-at-github", ("lea@elsewhere.example", True))
    reply = browser.follow(browser.post("/ui/account/connect/github"))
    assert "You can now sign in with GitHub" in reply.text
    browser.post(f"/ui/account/connections/{first.pk}")
    assert list(SocialAccount.objects.filter(user=user).values_list("provider", flat=True)) == ["github"]
    kinds = Event.objects.filter(actor_id=user.pk, kind__startswith="account").order_by("id")
    assert [(event.kind, event.detail["provider"]) for event in kinds] == [
        ("account_connected", "openid"), ("account_connected", "github"), ("account_disconnected", "openid"),
    ]  # fmt: skip
    # Another user cannot connect the same one.
    other = Browser(served)
    provider.person = openid("max", "max@harbor.example")
    other.sign_in("openid")
    provider.person = github(99, "lea-at-github")
    reply = other.follow(other.post("/ui/account/connect/github"))
    assert (reply.status_code, "Connected to another account" in reply.text) == (403, True)
    other.session.close()


def test_a_connected_account_verifies_the_address_until_it_changes(provider, browser):
    provider.person = openid("ole", "ole@harbor.example")
    browser.sign_in("openid")
    user = User.objects.get(username="ole")
    assert EmailAddress.objects.get(user=user).verified
    browser.post("/ui/account/profile", email="else@harbor.example")
    assert not EmailAddress.objects.filter(user=user).exists()


def test_a_deactivated_account_cannot_sign_in(provider, browser):
    user = person("rolf", vouched=True)
    User.objects.filter(pk=user.pk).update(is_active=False)
    provider.person = openid("rolf", user.email)
    assert "deactivated" in browser.sign_in("openid").text
    assert browser.who is None


def test_the_redirect_to_the_provider_is_safe(provider, browser):
    reply = browser.sign_in("openid", next="https://evil.example/")
    asked = provider.asked[-1]
    assert asked["redirect_uri"] == f"{browser.url}/ui/sign-in/openid/callback"
    assert asked["code_challenge_method"] == "S256"
    assert "evil" not in reply.url
    provider.person = github(5, "x")
    assert browser.sign_in("github").status_code == 403
    assert set(provider.asked[-1]["scope"].split()) == {"read:user", "user:email"}


def test_no_token_of_the_provider_is_stored(provider, browser):
    from allauth.socialaccount.models import SocialToken

    provider.person = openid("uma", "uma@harbor.example")
    browser.sign_in("openid")
    assert not SocialToken.objects.exists()


def test_reauthentication_without_a_password_is_a_new_sign_in(provider, browser):
    provider.person = openid("zoe", "zoe@harbor.example")
    browser.sign_in("openid")
    _age(User.objects.get(username="zoe"))
    asked = browser.post("/ui/account/profile", email="zoe@harbor.example", first_name="Zoe")
    assert (asked.status_code, "Sign in with Harbor SSO" in asked.text) == (403, True)
    assert browser.sign_in("openid", next="/ui/account").url.endswith("/ui/account")
    assert provider.asked[-1]["prompt"] == "login"
    assert browser.post("/ui/account/profile", email="zoe@harbor.example", first_name="Zoe").status_code == 200
    assert User.objects.get(username="zoe").first_name == "Zoe"


def _age(user: User) -> None:
    """Their sign-in was more than fifteen minutes ago."""
    from locks.browser_sessions import SessionStore

    for row in user.browser_sessions.all():
        store = SessionStore()
        data = store.decode(row.session_data)
        data["confirmed_at"] -= 1000
        row.session_data = store.encode(data)
        row.save(force_update=True)
