"""Tokens in a real browser: issued with the keyboard alone, shown once, and stored nowhere."""

import os
import re
import sqlite3
from pathlib import Path

import pytest
from django.db import connection
from playwright.sync_api import BrowserContext, Error, Locator, Page, expect

from locks import token_format
from locks.models import Invite, Token
from locks.services import invites
from tests.browser import chromium
from tests.browser.visitors import sign_in
from tests.conftest import PASSWORD
from tests.servers import RunningServer

pytestmark = pytest.mark.timeout(180)

TOKENS = "/ui/blue/main/tokens"
MAX_TABS = 60


@pytest.fixture(autouse=True)
def _people(committed: None, settings, request: pytest.FixtureRequest) -> None:
    """With the password hasher of the server process."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.PBKDF2PasswordHasher"]
    for name in ("alice", "space"):
        request.getfixturevalue(name)


def tab_to(page: Page, target: Locator) -> None:
    """Presses Tab until the element has the focus."""
    for _step in range(MAX_TABS):
        if target.evaluate("element => element === document.activeElement"):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"the keyboard does not reach {target}")


def secret_on(page: Page) -> str:
    text = page.locator("#secret").inner_text()
    assert token_format.parse(text) is not None
    return text


@pytest.mark.parametrize(
    ("theme", "paper"),
    [("light", "rgb(248, 248, 246)"), pytest.param("dark", "rgb(15, 18, 20)", marks=pytest.mark.long)],
)
def test_a_token_is_issued_with_the_keyboard_alone(page: Page, server: RunningServer, theme: str, paper: str):
    page.emulate_media(color_scheme=theme)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=server.url)
    sign_in(page, "alice", "/ui/blue/main/")
    page.keyboard.press("g")
    page.keyboard.press("t")
    expect(page).to_have_url(re.compile("/tokens$"))
    tab_to(page, page.get_by_role("main").get_by_role("link", name="Issue a token").first)
    page.keyboard.press("Enter")
    expect(page.get_by_label("Name", exact=True)).to_be_focused()
    page.keyboard.type("ci-deploy")
    expect(page.locator("#preview")).to_contain_text("ci-deploy will be able to claim, renew and release locks")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    expect(page.locator("#preview")).to_contain_text(
        "will be able to see locks and their holders, and read the history"
    )
    page.keyboard.press("ArrowUp")
    tab_to(page, page.get_by_label("Only lock names that start with"))
    page.keyboard.type("deploy/")
    expect(page.locator("#preview")).to_contain_text("only for lock names that start with deploy/")
    expect(page.locator("#preview")).to_contain_text("match 0 of the locks held now")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowUp")
    expect(page.get_by_label("30 days")).to_be_checked()
    tab_to(page, page.get_by_role("button", name="Issue token"))
    page.keyboard.press("Enter")
    expect(page.get_by_text("Shown only now")).to_be_visible()
    expect(page.locator("body")).to_have_css("background-color", paper)
    token = secret_on(page)
    tab_to(page, page.get_by_role("button", name="Copy the token"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == token
    expect(page.get_by_text("Waiting for first use")).to_be_visible()
    claimed = server.api(token).call("POST", "/locks/deploy/api/acquire", {"ttl_seconds": 60}, **{"User-Agent": "ci/1"})
    assert claimed.status == 200
    expect(page.get_by_text("First used from 127.0.0.1 by ci/1")).to_be_visible()
    tab_to(page, page.get_by_role("link", name="Done"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("row").filter(has_text="ci-deploy")).to_contain_text("ci/1")
    assert token not in page.content()


def test_neither_back_nor_reload_shows_it_again(page: Page):
    sign_in(page, "alice", TOKENS + "/new")
    page.get_by_label("Name", exact=True).fill("ci")
    page.get_by_role("button", name="Issue token").click()
    token = secret_on(page)
    page.get_by_role("link", name="Done").click()
    expect(page).to_have_url(re.compile("/tokens$"))
    # A browser asks before it posts again; here it does not post.
    with pytest.raises(Error, match="ERR_CACHE_MISS"):
        page.go_back()
    expect(page).to_have_url("chrome-error://chromewebdata/")
    assert token not in page.content()
    assert Token.objects.count() == 1


@pytest.fixture
def logged_server(committed: None, tmp_path: Path):
    running = RunningServer(os.environ["DATABASE_URL"], {"LOG_LEVEL": "debug"}, log=tmp_path / "server.log")
    running.start()
    yield running
    running.stop()


@pytest.fixture
def profile(browser, logged_server: RunningServer, tmp_path: Path):
    """A browser with a profile on disk, and every URL it requests."""
    requested: list[str] = []

    def opened(name: str) -> BrowserContext:
        context = browser.browser_type.launch_persistent_context(
            str(tmp_path / name), executable_path=chromium.find(), args=list(chromium.ARGUMENTS),
            base_url=logged_server.url,
        )  # fmt: skip
        context.on("request", lambda request: requested.append(f"{request.url} {request.headers.get('referer', '')}"))
        return context

    return opened, requested


def all_rows() -> str:
    """Every row of every table, as text."""
    with connection.cursor() as cursor:
        tables = connection.introspection.table_names(cursor)
        assert {"octo_token", "octo_event", "octo_invite"} <= set(tables)
        text = []
        for table in tables:
            cursor.execute(f'SELECT whole::text FROM "{table}" AS whole')
            text += [row for (row,) in cursor.fetchall()]
    return "\n".join(text)


def files_with(directory: Path, secret: str) -> list[str]:
    needles = (secret.encode(), secret.encode("utf-16-le"))
    return [
        path.relative_to(directory).as_posix()
        for path in directory.rglob("*")
        if path.is_file() and any(needle in path.read_bytes() for needle in needles)
    ]


def test_no_secret_is_stored_anywhere(profile, logged_server: RunningServer, tmp_path):
    open_profile, requested = profile
    hers = open_profile("alice")
    page = hers.pages[0]
    sign_in(page, "alice", TOKENS + "/new")
    page.get_by_label("Name", exact=True).fill("ci")
    page.get_by_role("button", name="Issue token").click()
    first = secret_on(page)
    api = logged_server.api(first)
    assert api.call("POST", "/locks/job/acquire", {"ttl_seconds": 60}).status == 200
    # Failures of all kinds, with the token in the header and, by mistake, in the path.
    failures = [
        api.call("POST", "/locks/job/acquire", {"ttl_seconds": -1}),
        api.call("POST", "/locks/job/force-release", {"reason": "x"}),
        api.call("GET", "/nowhere"),
        api.call("DELETE", f"/tokens/{first.split('_')[1]}"),
        logged_server.api(first + "x").call("GET", "/whoami"),
    ]
    assert [failure.status for failure in failures] == [400, 403, 404, 403, 401]
    page.goto("/ui/blue/main/nowhere")
    error_page = page.content()
    page.goto(TOKENS)
    page.get_by_role("link", name="Rotate ci").click()
    page.get_by_role("button", name="Rotate and show it").click()
    second = secret_on(page)
    assert logged_server.api(second).call("GET", "/whoami").status == 200
    page.goto(TOKENS)
    page.get_by_role("row").filter(has_text=second.split("_")[1]).get_by_role("link", name="Revoke ci").click()
    page.get_by_label("Release them now").check()
    page.get_by_role("button", name="Revoke ci").click()
    expect(page.get_by_role("heading", name="Token revoked")).to_be_visible()
    assert logged_server.api(second).call("GET", "/whoami").status == 401
    page.goto("/ui/blue/main/team/invites/new")
    page.get_by_role("button", name="Create link").click()
    link = page.locator("#link").inner_text()
    code = link.partition("#")[2]
    page.goto("/ui/blue/main/team/activity")
    expect(page.get_by_text("alice invited a new viewer")).to_be_visible()
    listed = [page.content()]
    for path in (TOKENS, TOKENS + "?show=history", "/ui/blue/main/team", "/ui/blue/main/activity"):
        page.goto(path)
        listed.append(page.content())
    hers.close()

    theirs = open_profile("erin")
    page = theirs.pages[0]
    page.goto(link)
    expect(page).to_have_url(re.compile("/ui/join/accept$"))
    page.get_by_label("User name").fill("erin")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Create account and join").click()
    expect(page).to_have_url(re.compile("/ui/blue/main/$"))
    listed.append(page.content())
    theirs.close()
    assert Invite.objects.get().accepted_by is not None

    logged = (tmp_path / "server.log").read_text()
    assert "/ui/join" in logged
    stored = all_rows()
    for secret in (first, second, code):
        # The end of the secret, in case only a part of it was stored.
        tail = secret[-20:]
        places = {
            "database": stored, "logs": logged, "addresses": "\n".join(requested).replace(link, ""),
            "error page": error_page, "failures": str([failure.content for failure in failures]),
            "pages": "\n".join(listed),
        }  # fmt: skip
        assert [place for place, text in places.items() if tail in text] == []
        assert files_with(tmp_path / "alice", tail) == []
    # The browser keeps the URL of an opened link in its history; that code is used up.
    assert {url for url in history(tmp_path / "erin") if code in url} <= {link}
    assert invites.find_open(code) is None


def history(directory: Path) -> list[str]:
    """Chromium without windows keeps none."""
    urls = []
    for found in directory.rglob("History"):
        with sqlite3.connect(found) as database:
            urls += [url for (url,) in database.execute("SELECT url FROM urls")]
    return urls
