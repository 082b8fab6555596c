"""Every page, in both themes and at 320 px: axe-core finds no violation, nothing overflows, no error in the console.

A new page is a line in PAGES. `make test` opens one page of each kind, `make torture` all of them.
"""

import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import time, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.test import override_settings
from django.utils import timezone
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, expect

from locks.engine import requests
from locks.engine.execution import run
from locks.engine.operations import acquire, force_release
from locks.events.history.rollup import UsageCounts, add_usage
from locks.models import BulkRelease, Delivery, Event, Lock, Role, Space, Team, Token, Transport, User, Waiter
from locks.models.token import PRESETS
from locks.services import elections, freezes, invites, members, notes, reservations, saved_filters, webhooks
from locks.services.alerts import rules as alert_rules
from locks.services.alerts.rules import RuleValues
from locks.services.audit import Actor
from locks.services.bulk_release import SelectedLock, confirm, prepare, release_next_chunk
from locks.services.release_requests import request_release
from locks.services.snooze import snooze
from locks.token_format import parse
from tests import database
from tests.browser.visitors import sign_in
from tests.conftest import PASSWORD, issue
from tests.sample_run import sample_run
from tests.servers import RunningServer, running_server

pytestmark = pytest.mark.timeout(300)

AXE = Path(__file__).parent / "vendor" / "axe-core" / "axe.min.js"
EVERYTHING = {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
# The themes differ only in colours, so the second one is checked for those.
COLOURS = {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}
THEMES = {"light": EVERYTHING, "dark": COLOURS}
WIDE: ViewportSize = {"width": 1280, "height": 900}
NARROW: ViewportSize = {"width": 320, "height": 800}
# The elements that make the page scroll sideways, innermost last.
OVERFLOWING = """() => {
    const edge = document.documentElement.clientWidth
    if (document.documentElement.scrollWidth <= edge) return []
    return [...document.body.querySelectorAll('*')].filter(one => one.getBoundingClientRect().right > edge + 1)
        .slice(-4).map(one => one.outerHTML.slice(0, 100))
}"""

# Of maximum length, without a place where a line could break.
LONG_NAME = "n" * 256
LONG_OWNER = "o" * 128
LONG_METADATA = f"{'k' * 60}={'v' * 900}"
LONG_REASON = "r" * 500
LONG_URL = f"https://hooks.example.com/{'p' * 1900}"

# Paths under the space, or absolute ones, with placeholders such as {event}.
PAGES = (
    "",
    "?q=nothing-like-this",
    # A few rows are enough to see how they are grouped, and one to see it open.
    "?group=owner&q=deploy",
    "?group=prefix&q=deploy",
    "?open={row}&q=nnn",
    "owners",
    "owners?q=runner",
    "owners?open={holder}",
    f"owner?name={LONG_OWNER}",
    "owner?name=runner-1",
    "timeline",
    "timeline?prefix=deploy/&span=7d",
    "timeline?since=2020-01-01T00:00&until=2020-01-02T00:00",
    "waits",
    "/ui/harbor/staging/waits",
    "runs",
    "runs?state=finished",
    "runs/{run}?layer={layer}&path=/peer/worker-1/result",
    "runs/{run}/drain",
    "runs/{run}/finish",
    "runs/{run}/actors/worker-1/end",
    "stuck",
    "stuck?show=snoozed",
    "snooze/deploy/api",
    "contention",
    "activity",
    "activity?kind=force_released&actor=olga&lock=deploy/api",
    "activity?kind=force_released",
    "activity/{event}",
    "locks/deploy/api",
    "locks/deploy/api?span=7d",
    "locks/deploy/api/force-release",
    "note/deploy/api",
    "ask/deploy/api",
    f"note/{LONG_NAME}",
    f"ask/{LONG_NAME}",
    "locks/queue/drain-mail",
    f"locks/{LONG_NAME}",
    f"locks/{LONG_NAME}/force-release",
    f"snooze/{LONG_NAME}",
    "freeze",
    "reserve",
    f"reserve/{LONG_NAME[1:]}",
    "locks/reserved",
    "extend/reserved",
    "hand-over/reserved",
    "releases",
    "releases/{prepared}",
    "releases/{done}",
    "tokens",
    "tokens?q=ci",
    "tokens/new",
    "tokens/{token}/rotate",
    "tokens/{token}/revoke",
    "team",
    "team/activity",
    "team/invites/new",
    "team/members/{victor}/spaces",
    "team/spaces/new",
    "team/limits",
    "team/namespaces",
    "names",
    "names?prefix=deploy/",
    "names?prefix=nothing-like-this",
    "names?open=deploy/&open=agents/&open=path:&open=path:src/",
    "/ui/harbor/staging/names",
    "team/archive",
    "team/restore/past",
    "webhooks",
    "webhooks/new",
    "webhooks/{webhook}",
    "alerts",
    "alerts/new",
    "alerts/{rule}",
    "alerts/{rule}/change",
    "connect",
    "system",
    "/ui/",
    "/ui/overview",
    "/ui/search?q=deploy",
    "/ui/search?q=nothing-like-this",
    "/ui/account",
    "/ui/teams/new",
    "/ui/elections",
    "/ui/join",
    "/ui/harbor/staging/",
    "/ui/harbor/staging/connect",
    "/ui/nowhere/at-all/",
)
MISSING = ("/ui/nowhere/at-all/",)
# A list, one with groups, charts, a chart in time, a table with long texts, forms, settings, and an error.
EACH_KIND = (
    "?group=owner&q=deploy", "names?prefix=deploy/", "contention", "timeline?prefix=deploy/&span=7d",
    f"locks/{LONG_NAME}", "locks/deploy/api/force-release", "tokens/new", "alerts/new", "team", "/ui/overview",
    *MISSING,
)  # fmt: skip


@pytest.fixture(scope="module")
def harbor(django_db_setup: None, django_db_blocker: Any) -> Iterator[RunningServer]:
    """A server with the demo team, once for this file. Ada is a superuser too, so that System shows all it has."""
    with django_db_blocker.unblock():
        # The password hasher of the server process.
        with override_settings(PASSWORD_HASHERS=["django.contrib.auth.hashers.PBKDF2PasswordHasher"]):
            call_command("create_demo", password=PASSWORD, days=1, verbosity=0)
        User.objects.filter(username="ada").update(is_superuser=True, is_staff=True)
        create_long_texts(Space.objects.get(slug="production"), User.objects.get(username="ada"))
        with running_server(os.environ["DATABASE_URL"]) as server:
            yield server
        connection.close()
        database.clean(connection.settings_dict["NAME"])


def create_long_texts(space: Space, person: User) -> None:
    """Locks with texts of maximum length: one that is held, waited for, refused, snoozed and frozen, others that were
    force-released, singly and in bulk, and one that is reserved."""
    actor = Actor.of_user(person)
    presented = parse(issue(space, LONG_OWNER, *PRESETS["worker"]))
    assert presented is not None
    digest = presented.digest.hex()
    names = (LONG_NAME, LONG_NAME[1:], LONG_NAME[2:])
    claims = [
        requests.Acquire(digest=digest, name=name, owner=LONG_OWNER, metadata=LONG_METADATA, ttl_seconds=3600)
        for name in names
    ]
    held, taken, in_bulk = run(acquire(claims))
    run(
        force_release(
            [
                requests.ForceRelease(
                    digest=None, space_id=space.pk, actor_id=person.pk, actor_name=person.username, channel="web",
                    name=names[1], expected_fencing_token=taken.fencing_token, reason=LONG_REASON,
                )
            ]
        )
    )  # fmt: skip
    Waiter.objects.create(
        space=space, name=LONG_NAME, token=Token.objects.get(name=LONG_OWNER), owner=LONG_OWNER,
        deadline_at="2999-01-01T00:00Z",
    )  # fmt: skip
    minute = timezone.now().replace(second=0, microsecond=0).isoformat()
    counted = UsageCounts(space_id=space.pk, minute=minute, refused=9_999, waited=999, waits={30: 999},
                    names={LONG_NAME: 9_999}, waited_names={LONG_NAME: (999, 99_999)})  # fmt: skip
    run(add_usage([counted]))
    snooze(space=space, lock_name=LONG_NAME, fencing_token=held.fencing_token, owner=LONG_OWNER, hours=4,
           note=LONG_REASON, actor=actor)  # fmt: skip
    notes.save(actor=actor, space=space, name=LONG_NAME[:-1], is_prefix=True, text=LONG_REASON,
               runbook_url=LONG_URL[:1000])  # fmt: skip
    request_release(actor=actor, space=space, lock_name=LONG_NAME, fencing_token=held.fencing_token, owner=LONG_OWNER,
                    reason=LONG_REASON)  # fmt: skip
    saved_filters.save(actor=actor, user=person, space=space, page="now", name="f" * 60, query=f"q={LONG_NAME}")
    victor = User.objects.get(username="victor")
    members.set_space_roles(actor=actor, by=person, team=space.team, member=victor, roles={space: Role.OPERATOR})
    selected = [SelectedLock(name=names[2], fencing_token=in_bulk.fencing_token, owner=LONG_OWNER)]
    prepare(space=space, user=person, selection_label="1 selected", locks=selected)
    batch = prepare(space=space, user=person, selection_label="1 selected", locks=selected)
    confirm(batch=batch, actor=actor, reason=LONG_REASON, lock_delay_seconds=0)
    release_next_chunk(batch.pk)
    reservations.reserve(actor=actor, space=space, name="reserved", reason=LONG_REASON, seconds=3600)
    freezes.freeze(actor=actor, space=space, prefix=LONG_NAME, reason=LONG_REASON, duration=timedelta(hours=1))


@pytest.fixture(scope="module")
def paths(harbor: RunningServer, django_db_blocker: Any) -> list[str]:
    with django_db_blocker.unblock():
        prepared, done = BulkRelease.objects.order_by("pk").values_list("pk", flat=True)
        held = Lock.objects.get(name=LONG_NAME)
        sample = sample_run(Space.objects.get(slug="production"), name="n" * 128, metadata=LONG_METADATA)
        values = {
            "token": Token.objects.get(name=LONG_OWNER).public_id,
            "event": Event.objects.filter(kind="force_released", lock_name=LONG_NAME[1:]).latest("at").pk,
            "prepared": prepared,
            "done": done,
            "row": held.pk,
            "holder": f"{held.holder_id}:{held.owner}",
            "webhook": create_missing(Space.objects.get(slug="production")),
            "rule": create_rules(Space.objects.get(slug="production")),
            "run": sample.id,
            "victor": User.objects.get(username="victor").pk,
            "layer": sample.sublead.actor.layer_id,
        }
    filled = [page.format(**values) for page in PAGES]
    return [_absolute(page) for page in filled]


def _absolute(page: str) -> str:
    return page if page.startswith("/") else f"/ui/harbor/production/{page}"


def create_missing(space: Space) -> str:
    """What the demo does not have: an archived space, an election, and a webhook with deliveries of every kind."""
    campaign = requests.Acquire(
        digest=elections.digest().hex(), name="r" * 64, owner="c" * 64, metadata=LONG_METADATA, ttl_seconds=300
    )
    elections.run_one(lambda: acquire([campaign]))
    Space.objects.create(team=space.team, slug="past", name="Past", archived_at=timezone.now())
    shell = Actor.of_shell()
    _secret, webhook = webhooks.create(actor=shell, space=space, url=LONG_URL, prefix=LONG_NAME)
    for status in ("pending", "delivered", "dead"):
        delivery = webhooks.send_test(actor=shell, webhook=webhook)
        delivery.log.create(number=1, duration_ms=1234, status=503)
        delivery.log.create(number=2, duration_ms=20, error="Connection refused.")
        finished = None if status == "pending" else timezone.now()
        Delivery.objects.filter(pk=delivery.pk).update(status=status, attempts=2, finished_at=finished)
    webhooks.pause(actor=shell, webhook=webhook)
    return webhook.public_id


def create_rules(space: Space) -> str:
    """One to Slack in its quiet hours with a message about many locks, and one with texts of maximum length."""
    shell = Actor.of_shell()
    values = RuleValues(
        name="Deploys, on call", kinds=alert_rules.KINDS, prefix="deploy/", transport=Transport.SLACK,
        destination="https://hooks.slack.com/services/T0/B0/x", reasons=["overdue", "long_queue"], quiet_from=time(22),
        quiet_until=time(7), quiet_zone="Europe/Berlin", quiet_days=[6, 7],
    )  # fmt: skip
    alert_rules.create(actor=shell, space=space, values=values)
    long = replace(
        values, name="n" * 80, prefix=LONG_NAME, transport=Transport.WEBHOOK, destination=LONG_URL, quiet_days=[]
    )
    _secret, webhook = alert_rules.create(actor=shell, space=space, values=long)
    items = [{"subject": LONG_NAME, "fencing_token": 1, "owner": LONG_OWNER, "text": "Overdue"}] * 3
    for kind, content in (("stuck", {"total": 40, "items": items}), ("test", None)):
        Delivery.objects.create(
            webhook=webhook, kind=kind, content=content, observed_at=timezone.now(), next_attempt_at=timezone.now(),
            deadline_at=timezone.now(),
        ).log.create(number=1, duration_ms=1234, status=503)  # fmt: skip
    return webhook.public_id


@pytest.fixture
def invitation(harbor: RunningServer, django_db_blocker: Any) -> str:
    with django_db_blocker.unblock():
        ada = User.objects.get(username="ada")
        code, _invite = invites.create(
            actor=Actor.of_user(ada), by=ada, team=Team.objects.get(slug="harbor"), role=Role.OPERATOR,
            lifetime=timedelta(days=1), note="Erin",
        )  # fmt: skip
    return code


@pytest.fixture
def errors() -> Iterator[list[str]]:
    """Errors of the browser; the test fails if there is any."""
    found: list[str] = []
    yield found
    assert not found


def open_tab(context: BrowserContext, server: RunningServer, errors: list[str]) -> Page:
    page = context.new_page()

    def report(text: str) -> None:
        # The missing page is meant to be missing.
        if not (page.url.endswith(MISSING) and "404" in text):
            errors.append(f"{page.url}: {text}")

    page.on("console", lambda message: report(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: report(str(error)))
    page.on("request", lambda request: None if request.url.startswith(server.url) else report(request.url))
    return page


def violations(page: Page, only: dict[str, Any]) -> list[str]:
    found = page.evaluate("only => axe.run(document, {runOnly: only, resultTypes: ['violations']})", only)["violations"]
    return [
        f"{page.url} {one['id']}: {node['html'][:160]} {node['failureSummary'][:300]}"
        for one in found
        for node in one["nodes"]
    ]


def change_theme(page: Page, theme: str) -> None:
    """As the button does, without the cookie."""
    page.evaluate("theme => { document.documentElement.dataset.theme = theme }", theme)


def in_both_themes(page: Page) -> list[str]:
    found = []
    for theme, only in THEMES.items():
        change_theme(page, theme)
        found += [f"{theme}: {one}" for one in violations(page, only)]
    return found


def test_axe_finds_nothing_on_a_page_of_each_kind(
    browser: Browser, harbor: RunningServer, invitation: str, errors: list[str]
) -> None:
    assert set(EACH_KIND) <= set(PAGES)
    _check([_absolute(page) for page in EACH_KIND], browser, harbor, invitation, errors)


@pytest.mark.long
def test_axe_finds_nothing_on_any_page_and_each_fits_into_its_window(
    browser: Browser, harbor: RunningServer, paths: list[str], invitation: str, errors: list[str]
) -> None:
    _check(paths, browser, harbor, invitation, errors)


def _check(paths: list[str], browser: Browser, harbor: RunningServer, invitation: str, errors: list[str]) -> None:
    context = browser.new_context(base_url=harbor.url, viewport=WIDE)
    context.add_cookies([{"name": "octo_theme", "value": "light", "url": harbor.url}])
    context.add_init_script(AXE.read_text())
    page = open_tab(context, harbor, errors)
    page.goto("/ui/sign-in")
    found = in_both_themes(page)
    # The link is opened in a tab that already shows the page, so only the fragment changes.
    page.goto("/ui/join")
    page.goto(f"/ui/join#{invitation}")
    expect(page.get_by_role("heading", name="Join Harbor")).to_be_visible()
    found += in_both_themes(page)
    sign_in(page, "ada")
    for path in paths:
        page.goto(path)
        # Long texts have the same colours as others.
        found += violations(page, EVERYTHING) if LONG_NAME in path else in_both_themes(page)
        for size in (NARROW, WIDE):
            page.set_viewport_size(size)
            if overflowing := page.evaluate(OVERFLOWING):
                found.append(f"{path[:80]} at {size['width']} pixels: {overflowing}")
    # The check does find unreadable text.
    faint = "color-mix(in srgb, var(--ink) 30%, var(--paper))"
    page.evaluate("colour => { document.querySelector('h1').style.color = colour }", faint)
    for theme, only in THEMES.items():
        change_theme(page, theme)
        assert violations(page, only), theme
    context.close()
    assert not found, "\n".join(found)


def test_axe_finds_nothing_in_what_pages_open(browser: Browser, harbor: RunningServer, errors: list[str]) -> None:
    """The search over all spaces, saved filters and the definition of a term."""
    context = browser.new_context(base_url=harbor.url, viewport=WIDE)
    context.add_init_script(AXE.read_text())
    page = open_tab(context, harbor, errors)
    sign_in(page, "ada")
    found = []
    for opened in ("palette", "saved filters", "term"):
        page.goto("/ui/harbor/production/?q=deploy")
        if opened == "palette":
            page.keyboard.press("Control+k")
            page.keyboard.type("deploy")
            expect(page.locator("#palette").get_by_role("option").first).to_be_visible()
        elif opened == "saved filters":
            page.get_by_text("Saved filters").click()
        else:
            page.get_by_role("button", name="What does overdue mean?").click()
        found += in_both_themes(page)
        page.set_viewport_size(NARROW)
        if overflowing := page.evaluate(OVERFLOWING):
            found.append(f"{opened}: {overflowing}")
        page.set_viewport_size(WIDE)
    context.close()
    assert not found, "\n".join(found)


@pytest.mark.long
def test_pages_open_without_javascript(browser: Browser, harbor: RunningServer, paths: list[str]) -> None:
    """Reading and filtering; actions are tested with their pages."""
    context = browser.new_context(base_url=harbor.url, java_script_enabled=False)
    page = context.new_page()
    sign_in(page, "ada")
    for path in (path for path in paths if LONG_NAME not in path):
        answer = page.goto(path)
        assert answer is not None
        assert answer.status == (404 if path in MISSING else 200), path
        assert page.get_by_role("heading", level=1).count() == 1, path
    page.goto("/ui/harbor/production/contention")
    page.get_by_role("link", name="1h").click()
    expect(page.get_by_text("In the last hour,")).to_be_visible()
    page.goto("/ui/harbor/production/activity")
    page.get_by_text("Kinds", exact=True).click()
    page.get_by_label("expired", exact=True).check()
    page.get_by_role("button", name="Search", exact=True).click()
    expect(page).to_have_url(re.compile("kind=expired"))
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV").click()
    assert download.value.suggested_filename == "harbor-production-events.csv"
    context.close()


@pytest.mark.long
def test_the_dark_theme_is_printed_dark_on_white_and_as_wide_as_a_sheet(
    browser: Browser, harbor: RunningServer
) -> None:
    context = browser.new_context(base_url=harbor.url, viewport={"width": 760, "height": 1075})
    context.add_cookies([{"name": "octo_theme", "value": "dark", "url": harbor.url}])
    page = context.new_page()
    sign_in(page, "ada")
    for path in ("", "locks/deploy/api", "contention"):
        page.goto(f"/ui/harbor/production/{path}")
        page.emulate_media(media="print")
        expect(page.locator("table").first).to_have_css("display", "table")
        expect(page.locator(".locks, .panel").first).to_have_css("background-color", "rgb(255, 255, 255)")
        assert not page.evaluate(OVERFLOWING), path
        page.emulate_media(media="screen")
    context.close()


def test_the_vendored_file_is_the_published_one() -> None:
    digest = hashlib.sha256(AXE.read_bytes()).hexdigest()
    assert digest in (AXE.parent.parent / "README.md").read_text()
