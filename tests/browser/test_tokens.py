"""Tokens in a real browser: issued by keyboard alone, seen once, and left behind nowhere."""

import os
import re
import sqlite3
from pathlib import Path

import pytest
from django.db import connection
from playwright.sync_api import BrowserContext, Locator, Page, expect

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
    """With passwords as the server, which is another process, knows them."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.PBKDF2PasswordHasher"]
    for name in ("alice", "space"):
        request.getfixturevalue(name)


def tab_to(page: Page, wanted: Locator) -> None:
    """As somebody without a mouse gets there."""
    for _step in range(MAX_TABS):
        if wanted.evaluate("element => element === document.activeElement"):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"the keyboard does not reach {wanted}")


def shown(page: Page) -> str:
    text = page.locator("#secret").inner_text()
    assert token_format.parse(text) is not None
    return text


@pytest.mark.parametrize(("theme", "paper"), [("light", "rgb(248, 248, 246)"), ("dark", "rgb(15, 18, 20)")])
def test_a_token_is_issued_by_keyboard_alone(page: Page, server: RunningServer, theme: str, paper: str):
    page.emulate_media(color_scheme=theme)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=server.url)
    sign_in(page, "alice", "/ui/blue/main/")
    page.keyboard.press("g")
    page.keyboard.press("t")
    expect(page).to_have_url(re.compile("/tokens$"))
    tab_to(page, page.get_by_role("main").get_by_role("link", name="Issue a token").first)
    page.keyboard.press("Enter")
    expect(page.get_by_label("What will use it")).to_be_focused()
    page.keyboard.type("ci-deploy")
    expect(page.locator("#preview")).to_contain_text("ci-deploy will be able to claim, renew and release locks")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    expect(page.locator("#preview")).to_contain_text(
        "will be able to see locks and who holds them, and read the history"
    )
    page.keyboard.press("ArrowUp")
    tab_to(page, page.get_by_label("Only names that start with"))
    page.keyboard.type("deploy/")
    expect(page.locator("#preview")).to_contain_text("only for names that start with deploy/")
    expect(page.locator("#preview")).to_contain_text("match 0 of the locks held now")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowUp")
    expect(page.get_by_label("30 days")).to_be_checked()
    tab_to(page, page.get_by_role("button", name="Issue the token"))
    page.keyboard.press("Enter")
    expect(page.get_by_text("Shown this once")).to_be_visible()
    expect(page.locator("body")).to_have_css("background-color", paper)
    token = shown(page)
    tab_to(page, page.get_by_role("button", name="Copy the token"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == token
    expect(page.get_by_text("Waiting for first use")).to_be_visible()
    claimed = server.api(token).call("POST", "/locks/deploy/api/acquire", {"ttl_seconds": 60}, **{"User-Agent": "ci/1"})
    assert claimed.status == 200
    expect(page.get_by_text("First used from 127.0.0.1 by ci/1")).to_be_visible()
    tab_to(page, page.get_by_role("link", name="I have it. To the list"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("row").filter(has_text="ci-deploy")).to_contain_text("ci/1")
    assert token not in page.content()


def test_neither_back_nor_reload_shows_it_again(page: Page):
    sign_in(page, "alice", TOKENS + "/new")
    page.get_by_label("What will use it").fill("ci")
    page.get_by_role("button", name="Issue the token").click()
    token = shown(page)
    page.get_by_role("link", name="I have it. To the list").click()
    expect(page).to_have_url(re.compile("/tokens$"))
    # The browser asks before it would post again; here it just does not.
    page.evaluate("history.back()")
    page.wait_for_timeout(500)
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
    """A browser with a profile on disk, as people have one, and every address it asks for."""
    asked: list[str] = []

    def opened(name: str) -> BrowserContext:
        context = browser.browser_type.launch_persistent_context(
            str(tmp_path / name), executable_path=chromium.find(), args=list(chromium.ARGUMENTS),
            base_url=logged_server.url,
        )  # fmt: skip
        context.on("request", lambda request: asked.append(f"{request.url} {request.headers.get('referer', '')}"))
        return context

    return opened, asked


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


def test_no_secret_is_left_behind_anywhere(profile, logged_server: RunningServer, tmp_path):
    open_profile, asked = profile
    hers = open_profile("alice")
    page = hers.pages[0]
    sign_in(page, "alice", TOKENS + "/new")
    page.get_by_label("What will use it").fill("ci")
    page.get_by_role("button", name="Issue the token").click()
    first = shown(page)
    api = logged_server.api(first)
    assert api.call("POST", "/locks/job/acquire", {"ttl_seconds": 60}).status == 200
    # Failures of all kinds, with the token in the header and, by mistake, where it does not belong.
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
    second = shown(page)
    assert logged_server.api(second).call("GET", "/whoami").status == 200
    page.goto(TOKENS)
    page.get_by_role("row").filter(has_text=second.split("_")[1]).get_by_role("link", name="Revoke ci").click()
    page.get_by_label("Release").check()
    page.get_by_role("button", name="Revoke ci").click()
    expect(page.get_by_role("heading", name="Revoked")).to_be_visible()
    assert logged_server.api(second).call("GET", "/whoami").status == 401
    page.goto("/ui/blue/main/team/invites/new")
    page.get_by_role("button", name="Make the link").click()
    link = page.locator("#link").inner_text()
    code = link.partition("#")[2]
    page.goto("/ui/blue/main/team/activity")
    expect(page.get_by_text("alice invited somebody as viewer")).to_be_visible()
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
    page.get_by_role("button", name="Make an account and join").click()
    expect(page).to_have_url(re.compile("/ui/blue/main/$"))
    listed.append(page.content())
    theirs.close()
    assert Invite.objects.get().accepted_by is not None

    logged = (tmp_path / "server.log").read_text()
    assert "/ui/join" in logged
    stored = all_rows()
    for secret in (first, second, code):
        # The part that is secret, however somebody might have cut it.
        tail = secret[-20:]
        places = {
            "database": stored, "logs": logged, "addresses": "\n".join(asked).replace(link, ""),
            "error page": error_page, "failures": str([failure.content for failure in failures]),
            "pages": "\n".join(listed),
        }  # fmt: skip
        assert [place for place, text in places.items() if tail in text] == []
        assert files_with(tmp_path / "alice", tail) == []
    # No page can keep a browser from remembering an address that somebody opened. What it remembers is used up.
    assert {url for url in history(tmp_path / "erin") if code in url} <= {link}
    assert invites.find_open(code) is None


def history(directory: Path) -> list[str]:
    (found,) = directory.rglob("History")
    with sqlite3.connect(found) as database:
        return [url for (url,) in database.execute("SELECT url FROM urls")]
