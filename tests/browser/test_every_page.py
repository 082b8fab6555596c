"""Every page, in both themes and at 320 px: axe-core finds no violation, nothing overflows, nothing is complained of.

A new page is a line in PAGES.
"""

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, expect

from locks.models import Event, Token, User
from tests import database
from tests.servers import RunningServer, running_server

pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("every_page")]

AXE = Path(__file__).parent / "vendor" / "axe-core" / "axe.min.js"
EVERYTHING = {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
# The themes differ in colours alone, so the second one is looked at for those.
COLOURS = {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}
WIDE: ViewportSize = {"width": 1280, "height": 900}
NARROW: ViewportSize = {"width": 320, "height": 800}
PASSWORD = "a password for the demo"

# Addresses under the space, or whole ones; {event}, {token} and {release} are filled in.
PAGES = (
    "",
    "?q=nothing-like-this",
    "?group=owner",
    "owners",
    "stuck",
    "snooze/deploy/api",
    "contention",
    "activity",
    "activity/{event}",
    "locks/deploy/api",
    "locks/deploy/api/force-release",
    "releases",
    "tokens",
    "tokens/new",
    "tokens/{token}/rotate",
    "tokens/{token}/revoke",
    "team",
    "team/activity",
    "team/invites/new",
    "team/spaces/new",
    "team/limits",
    "team/archive",
    "connect",
    "system",
    "/ui/",
    "/ui/account",
    "/ui/harbor/staging/",
    "/ui/harbor/staging/connect",
    "/ui/nowhere/at-all/",
)
MISSING = ("/ui/nowhere/at-all/",)


@pytest.fixture(scope="module")
def harbor(django_db_setup: None, django_db_blocker: Any) -> Iterator[RunningServer]:
    """A server with the demo team, once for this file. Ada is a superuser too, so that System shows all it has."""
    with django_db_blocker.unblock():
        call_command("create_demo", password=PASSWORD, days=1, verbosity=0)
        User.objects.filter(username="ada").update(is_superuser=True, is_staff=True)
        with running_server(os.environ["DATABASE_URL"]) as server:
            yield server
        connection.close()
        database.create_copy(connection.settings_dict["NAME"])


@pytest.fixture(scope="module")
def places(harbor: RunningServer, django_db_blocker: Any) -> list[str]:
    with django_db_blocker.unblock():
        token = Token.objects.filter(space__slug="production").order_by("pk")[0].public_id
        event = Event.objects.filter(kind="force_released").latest("at").pk
    filled = [page.format(token=token, event=event) for page in PAGES]
    return [page if page.startswith("/") else f"/ui/harbor/production/{page}" for page in filled]


@pytest.fixture
def complaints() -> Iterator[list[str]]:
    """What the browser complained of; the test fails if there is any."""
    found: list[str] = []
    yield found
    assert not found


def open_tab(context: BrowserContext, server: RunningServer, complaints: list[str]) -> Page:
    page = context.new_page()

    def heard(text: str) -> None:
        # The page that is not there is meant not to be.
        if not (page.url.endswith(MISSING) and "404" in text):
            complaints.append(f"{page.url}: {text}")

    page.on("console", lambda message: heard(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: heard(str(error)))
    page.on("request", lambda request: None if request.url.startswith(server.url) else heard(request.url))
    return page


def sign_in(page: Page, name: str) -> None:
    page.goto("/ui/sign-in")
    page.get_by_label("User name or e-mail").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page).to_have_url(re.compile(r"/ui/(harbor.*)?$"))


def violations(page: Page, only: dict[str, Any]) -> list[str]:
    found = page.evaluate("only => axe.run(document, {runOnly: only, resultTypes: ['violations']})", only)["violations"]
    return [
        f"{page.url} {one['id']}: {node['html'][:160]} {node['failureSummary'][:300]}"
        for one in found
        for node in one["nodes"]
    ]


@pytest.mark.parametrize(("theme", "only"), [("light", EVERYTHING), ("dark", COLOURS)])
def test_axe_finds_nothing_on_any_page_and_each_fits_into_320_pixels(
    browser: Browser, harbor: RunningServer, places: list[str], complaints: list[str], theme: str, only: dict[str, Any]
) -> None:
    axe = AXE.read_text()
    context = browser.new_context(base_url=harbor.url, viewport=WIDE)
    context.add_cookies([{"name": "octo_theme", "value": theme, "url": harbor.url}])
    page = open_tab(context, harbor, complaints)
    page.goto("/ui/sign-in")
    page.evaluate(axe)
    found = violations(page, only)
    sign_in(page, "ada")
    for place in places:
        page.goto(place)
        page.evaluate(axe)
        found += violations(page, only)
        page.set_viewport_size(NARROW)
        if (width := page.evaluate("document.documentElement.scrollWidth")) > NARROW["width"]:
            found.append(f"{place} is {width} pixels wide")
        page.set_viewport_size(WIDE)
    # It would have seen something: words that can hardly be read.
    faint = "color-mix(in srgb, var(--ink) 30%, var(--paper))"
    page.evaluate("colour => { document.querySelector('h1').style.color = colour }", faint)
    assert violations(page, only)
    context.close()
    assert not found, "\n".join(found)


def test_pages_open_without_javascript(browser: Browser, harbor: RunningServer, places: list[str]) -> None:
    """To read and to filter; what acts is tested where it belongs."""
    context = browser.new_context(base_url=harbor.url, java_script_enabled=False)
    page = context.new_page()
    sign_in(page, "ada")
    for place in places:
        answer = page.goto(place)
        assert answer is not None
        assert answer.status == (404 if place in MISSING else 200), place
        assert page.get_by_role("heading", level=1).count() == 1, place
    page.goto("/ui/harbor/production/contention")
    page.get_by_role("link", name="1h").click()
    expect(page.get_by_text("In the last hour")).to_be_visible()
    page.goto("/ui/harbor/production/activity")
    page.get_by_label("Kind").select_option("expired")
    page.get_by_role("button", name="Filter", exact=True).click()
    expect(page).to_have_url(re.compile("kind=expired"))
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV").click()
    assert download.value.suggested_filename == "harbor-production-events.csv"
    context.close()


def test_the_vendored_file_is_the_published_one() -> None:
    digest = hashlib.sha256(AXE.read_bytes()).hexdigest()
    assert digest in (AXE.parent.parent / "README.md").read_text()
