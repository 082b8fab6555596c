"""Reserve and freeze in a real browser."""

import re

import pytest
from playwright.sync_api import Page, expect

from locks.models import Event, Lock
from tests.browser.visitors import log_in
from tests.conftest import issue
from tests.servers import RunningServer

pytestmark = pytest.mark.timeout(180)

NOW = "/ui/blue/main/"


@pytest.fixture(autouse=True)
def _people(committed: None, request: pytest.FixtureRequest) -> None:
    for name in ("alice", "olga", "space"):
        request.getfixturevalue(name)


def test_an_operator_reserves_extends_hands_over_and_releases(page: Page, server: RunningServer, space) -> None:
    api = server.api(issue(space, "worker", "locks:read", "locks:write"))
    log_in(page, "olga", NOW)
    page.get_by_role("link", name="Reserve…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name of the lock").fill("deploy-main")
    dialog.get_by_label("Reason").fill("database migration")
    dialog.get_by_role("button", name="Reserve").click()
    expect(page).to_have_url(re.compile("/locks/deploy-main$"))
    expect(page.get_by_text("Reserved by olga")).to_be_visible()
    refused = api.call("POST", "/locks/deploy-main/acquire", {}).json()
    assert (refused["status"], refused["owner"], refused["metadata"]) == ("held", "olga", "database migration")

    page.get_by_role("link", name="Extend…").click()
    dialog.get_by_label("Extend by").select_option(label="2 hours")
    dialog.get_by_role("button", name="Extend").click()
    expect(dialog).to_contain_text("deploy-main is reserved until")
    dialog.get_by_role("link", name="Close").click()
    expect(page.get_by_text(re.compile(r"ends in\s+2 h 5"))).to_be_visible()

    page.get_by_role("link", name="Hand over…").click()
    dialog.get_by_label("To", exact=True).select_option(label="alice")
    dialog.get_by_role("button", name="Hand over").click()
    expect(page.get_by_text("Reserved by alice")).to_be_visible()
    expect(page.get_by_role("link", name="Extend…")).to_have_count(0)

    log_in(page, "alice", f"{NOW}locks/deploy-main")
    page.get_by_role("button", name="Release").click()
    expect(page.get_by_text("Free: the next claim acquires it.")).to_be_visible()
    assert api.call("POST", "/locks/deploy-main/acquire", {}).json()["status"] == "acquired"
    ends = Event.objects.filter(lock_name="deploy-main", kind="released").order_by("id")
    assert [(event.owner, event.actor_name, event.reason) for event in ends] == [
        ("olga", "olga", "handed over to alice"), ("alice", "alice", None),
    ]  # fmt: skip


def test_an_operator_freezes_and_lifts_and_every_page_says_so(page: Page, server: RunningServer, space) -> None:
    api = server.api(issue(space, "worker", "locks:read", "locks:write"))
    held = api.call("POST", "/locks/deploy/api/acquire", {}).json()
    log_in(page, "olga", NOW)
    page.get_by_role("link", name="Freeze…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Prefix").fill("deploy/")
    expect(dialog.locator("#preview")).to_contain_text("Names that start with deploy/: 1 held")
    dialog.get_by_label("Reason").fill("database migration")
    dialog.get_by_role("button", name="Freeze").click()
    banner = page.get_by_role("region", name="Freeze")
    expect(banner).to_contain_text("Frozen: names that start with deploy/")
    page.goto(f"{NOW}activity")
    expect(banner).to_contain_text("database migration")
    expect(page.get_by_text("olga froze names that start with")).to_be_visible()

    refused = api.call("POST", "/locks/deploy/web/acquire", {})
    assert (refused.status, refused.json()["reason"]) == (409, "database migration")
    assert api.call("POST", "/locks/deploy/api/renew", {"lease_id": held["lease_id"]}).status == 200

    # Another tab notices without being reloaded that it was lifted.
    other = page.context.new_page()
    other.goto(NOW)
    expect(other.get_by_role("region", name="Freeze")).to_be_visible()
    banner.get_by_role("button", name="Lift").click()
    expect(page).to_have_url(re.compile(f"{NOW}$"))
    expect(banner).to_have_count(0)
    expect(other.get_by_role("region", name="Freeze")).to_have_count(0)
    assert api.call("POST", "/locks/deploy/web/acquire", {}).json()["status"] == "acquired"
    assert Lock.objects.filter(lease_id__isnull=False).count() == 2
