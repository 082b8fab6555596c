"""Accounts in a real browser: passkeys, reauthentication in a dialog, a session that is ended elsewhere."""

import os
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.hashers import make_password
from django.db import connection
from playwright.sync_api import Browser, BrowserContext, Page, Request, expect

from locks.browser_sessions import SessionStore
from locks.models import Event, Membership, Role, Space, Team, User
from locks.models.token import PRESETS
from tests import database
from tests.browser.visitors import sign_in
from tests.conftest import PASSWORD, issue
from tests.servers import RunningServer, running_server

pytestmark = pytest.mark.timeout(120)

NOW = "/ui/navy/main/"
ACCOUNT = "/ui/account"


@pytest.fixture(scope="module")
def served(django_db_setup: None, django_db_blocker: Any) -> Iterator[RunningServer]:
    with django_db_blocker.unblock():
        with running_server(os.environ["DATABASE_URL"], OCTO_PASSKEYS="true", OCTO_ONE_TIME_CODES="true") as server:
            yield server
        connection.close()
        database.clean(connection.settings_dict["NAME"])


@pytest.fixture(scope="module")
def space(served: RunningServer) -> Space:
    team = Team.objects.create(slug="navy", name="Navy")
    return Space.objects.create(team=team, slug="main", name="Main")


@pytest.fixture
def ola(space: Space, request: pytest.FixtureRequest, django_db_blocker: Any) -> Iterator[User]:
    """An operator for one test, with the password hasher of the server process."""
    with django_db_blocker.unblock():
        user = User.objects.create(
            username=f"ola-{abs(hash(request.node.name)) % 10_000_000}",
            password=make_password(PASSWORD, hasher="pbkdf2_sha256"),
        )
        Membership.objects.create(team=space.team, user=user, role=Role.OPERATOR)
        yield user


@pytest.fixture(autouse=True)
def _real_hashes(settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.PBKDF2PasswordHasher"]


@pytest.fixture
def console_errors() -> Iterator[list[str]]:
    """What pages write to the console. Reauthentication answers 403, which Chromium logs."""
    errors: list[str] = []
    yield errors
    assert not [error for error in errors if "status of 403" not in error]


@pytest.fixture
def tab(browser: Browser, served: RunningServer, console_errors: list[str]) -> Iterator[Any]:
    """tab() is a page in a browser of its own. Passkeys need a host name."""
    contexts: list[BrowserContext] = []

    def open_tab(**options: Any) -> Page:
        context = browser.new_context(base_url=f"http://localhost:{served.port}", **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: console_errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: console_errors.append(str(error)))
        return page

    yield open_tab
    for context in contexts:
        context.close()


def give_authenticator(page: Page) -> tuple[Any, str]:
    """A virtual security key that confirms every request."""
    devtools = page.context.new_cdp_session(page)
    devtools.send("WebAuthn.enable")
    options = {
        "protocol": "ctap2", "transport": "internal", "hasResidentKey": True, "hasUserVerification": True,
        "isUserVerified": True, "automaticPresenceSimulation": True,
    }  # fmt: skip
    return devtools, devtools.send("WebAuthn.addVirtualAuthenticator", {"options": options})["authenticatorId"]


def age_sessions(user: User) -> None:
    """As if the user had signed in more than fifteen minutes ago."""
    for row in user.browser_sessions.all():
        data = SessionStore().decode(row.session_data)
        row.session_data = SessionStore().encode({**data, "confirmed_at": data["confirmed_at"] - 1000})
        row.save(force_update=True)


def test_a_passkey_is_set_up_and_signs_in_without_a_password(tab, ola):
    page = tab()
    give_authenticator(page)
    sign_in(page, ola.username, ACCOUNT)
    page.get_by_role("link", name="Set up a passkey").click()
    page.get_by_label("Name of this device").fill("Laptop")
    page.get_by_role("button", name="Set up").click()
    expect(page.get_by_role("heading", name="Recovery codes")).to_be_visible()
    assert page.locator(".recovery code").count() == 10
    page.get_by_role("link", name="I’ve saved them").click()
    expect(page.get_by_role("button", name="Remove Laptop")).to_be_visible()
    page.locator(".person summary").click()
    page.get_by_role("button", name="Sign out", exact=True).click()
    posts: list[Request] = []
    page.on("request", lambda request: posts.append(request) if request.method == "POST" else None)
    page.get_by_role("button", name="Sign in with a passkey").click()
    expect(page).to_have_url(re.compile(re.escape(NOW) + "$"))
    assert Event.objects.filter(kind="signed_in", actor_id=ola.pk).latest("id").detail == {"methods": ["passkey"]}
    # The same signature is refused a second time, with every cookie and field that it had.
    (post,) = posts
    again = urllib.request.Request(post.url, post.post_data_buffer, post.all_headers())  # noqa: S310 -- of the test's server
    with pytest.raises(urllib.error.HTTPError, match="422"):
        urllib.request.urlopen(again)  # noqa: S310
    added = Event.objects.get(kind="second_factor_added", actor_id=ola.pk)
    assert added.detail == {"kind": "passkey", "name": "Laptop"}


def test_a_passkey_is_the_second_step_and_confirms_again(tab, ola):
    page = tab()
    devtools, authenticator = give_authenticator(page)
    sign_in(page, ola.username, f"{ACCOUNT}/passkeys")
    page.get_by_role("button", name="Set up").click()
    expect(page.get_by_role("heading", name="Recovery codes")).to_be_visible()
    page.context.clear_cookies()
    sign_in(page, ola.username, ACCOUNT)
    expect(page.get_by_role("heading", name="Enter your code")).to_be_visible()
    page.get_by_role("button", name="Use your passkey").click()
    expect(page.get_by_role("heading", name="Your account")).to_be_visible()
    age_sessions(ola)
    # A change requires it again; with the passkey the typed values go through.
    page.get_by_label("First name").fill("Ola")
    page.get_by_role("button", name="Save profile").click()
    expect(page.get_by_text("Confirm it is you")).to_be_visible()
    page.get_by_role("button", name="Use your passkey").click()
    expect(page.get_by_label("First name")).to_have_value("Ola")
    expect(page.get_by_text("Profile saved")).to_be_visible()
    assert Event.objects.get(kind="confirmed", actor_id=ola.pk).detail == {"method": "passkey"}
    # A device without a key for this account cannot.
    devtools.send("WebAuthn.clearCredentials", {"authenticatorId": authenticator})
    devtools.send("WebAuthn.setUserVerified", {"authenticatorId": authenticator, "isUserVerified": False})
    page.context.clear_cookies()
    sign_in(page, ola.username, ACCOUNT)
    page.get_by_role("button", name="Use your passkey").click()
    expect(page.get_by_text("Nothing was signed")).to_be_visible()


def test_force_release_asks_in_the_dialog_and_continues_there(tab, ola, served, space):
    api = served.api(issue(space, f"worker of {ola.username}", *PRESETS["worker"]))
    assert api.call("POST", "/locks/asked/acquire", {"ttl_seconds": 300, "owner": "runner-7"}).status == 200
    page = tab()
    sign_in(page, ola.username, NOW)
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    age_sessions(ola)
    page.get_by_role("link", name="Force-release asked").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Confirm it is you")
    expect(dialog.get_by_label("Password")).to_be_focused()
    dialog.get_by_label("Password").fill("wrong")
    dialog.get_by_label("Password").press("Enter")
    expect(dialog).to_contain_text("Incorrect password")
    dialog.get_by_label("Password").fill(PASSWORD)
    dialog.get_by_label("Password").press("Enter")
    dialog.get_by_label("Reason").fill("its host is gone")
    dialog.get_by_label("Type asked to continue").fill("asked")
    # The confirmation expired meanwhile: the typed values go through with the password.
    age_sessions(ola)
    dialog.get_by_role("button", name="Force-release from runner-7").click()
    expect(dialog).to_contain_text("Nothing you typed is lost")
    dialog.get_by_label("Password").fill(PASSWORD)
    dialog.get_by_role("button", name="Continue").click()
    expect(dialog.get_by_role("heading", name="Released")).to_be_visible()
    assert Event.objects.get(kind="force_released", actor_id=ola.pk).reason == "its host is gone"


@pytest.mark.long
def test_without_javascript_it_asks_on_a_page_and_continues(tab, ola, served, space):
    api = served.api(issue(space, f"plain worker of {ola.username}", *PRESETS["worker"]))
    assert api.call("POST", "/locks/plain/acquire", {"ttl_seconds": 300, "owner": "runner-9"}).status == 200
    page = tab(java_script_enabled=False)
    sign_in(page, ola.username, f"{NOW}locks/plain/force-release")
    page.get_by_label("Reason").fill("no script")
    page.get_by_label("Type plain to continue").fill("plain")
    age_sessions(ola)
    page.get_by_role("button", name="Force-release from runner-9").click()
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_role("heading", name="Released")).to_be_visible()


def test_a_session_that_is_ended_elsewhere_ends_at_once(tab, ola):
    here, there = tab(), tab(user_agent="Mozilla/5.0 (iPhone; CPU iPhone OS 18_0) Version/18.0 Safari/604.1")
    sign_in(there, ola.username, NOW)
    expect(there.get_by_text("Live", exact=True)).to_be_visible()
    sign_in(here, ola.username, ACCOUNT)
    here.get_by_role("button", name="End Safari on iPhone").click()
    expect(here.get_by_text("Session ended")).to_be_visible()
    assert there.request.get(NOW, max_redirects=0).status == 302
    # The page that is open there goes to sign-in by itself, because its stream is closed.
    expect(there.get_by_role("heading", name="Sign in")).to_be_visible()


@pytest.mark.long
def test_the_account_page_fits_a_small_screen(tab, ola):
    page = tab(viewport={"width": 320, "height": 700})
    sign_in(page, ola.username, ACCOUNT)
    for path in (ACCOUNT, f"{ACCOUNT}/codes", f"{ACCOUNT}/passkeys"):
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") == 320
