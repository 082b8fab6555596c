"""Bulk release in a real browser: a selection that survives refreshes, and a release from selection to result."""

import os
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from locks.models import Event
from tests.browser.test_dashboard import _people, api, row, take, watch, watch_refreshed  # noqa: F401 -- fixtures
from tests.browser.visitors import log_in
from tests.octoadmin.run.test_worker import running_worker
from tests.servers import Api

pytestmark = [pytest.mark.timeout(150), pytest.mark.xdist_group("up")]

NOW = "/ui/blue/main/"
PILL = re.compile(r"\+\d+ change")


def checkbox(page: Page, name: str):
    return page.get_by_role("checkbox", name=f"Select {name}", exact=True)


def test_a_selection_survives_a_refresh_and_ends_with_its_hold(page: Page, api: Api):  # noqa: F811
    held = {name: take(api, name, owner="runner-7") for name in ("first", "second", "third")}
    watch_refreshed(page, "olga")
    page.get_by_role("link", name="Details of first").focus()
    page.keyboard.press("x")
    expect(checkbox(page, "first")).to_be_checked()
    checkbox(page, "second").check()
    expect(page.get_by_text("2 selected")).to_be_visible()
    api.call("POST", "/locks/second/release", {"lease_id": held["second"]["lease_id"]})
    take(api, "second", owner="runner-9")
    take(api, "fourth")
    pill = page.get_by_role("button", name=PILL)
    expect(pill).to_be_visible()
    expect(row(page, "fourth")).to_have_count(0)
    pill.click()
    expect(row(page, "fourth")).to_be_visible()
    expect(row(page, "second")).to_contain_text("runner-9")
    expect(checkbox(page, "first")).to_be_checked()
    expect(checkbox(page, "second")).not_to_be_checked()
    expect(page.get_by_text("1 selected", exact=True)).to_be_visible()
    expect(page.get_by_role("status").filter(has_text="1 selected row is no longer listed")).to_have_count(1)
    page.get_by_role("button", name="Clear").click()
    expect(page.get_by_role("button", name="Force-release selected")).to_be_hidden()


def test_many_locks_are_released_from_the_selection_to_the_result(page: Page, api: Api):  # noqa: F811
    for number in range(12):
        take(api, f"job-{number:02}", owner="runner-7")
    kept = take(api, "kept", owner="runner-8")
    watch(page, "olga")
    page.get_by_role("textbox", name="Prefix").fill("job-")
    expect(row(page, "kept")).to_have_count(0)
    page.get_by_role("checkbox", name="Select all on this page").check()
    expect(page.get_by_text("12 selected")).to_be_visible()
    page.get_by_role("button", name="Force-release all 12 matching").click()
    expect(page.get_by_role("heading", name="Force-release 12 locks")).to_be_visible()
    expect(page.get_by_text("12 are still heartbeating")).to_be_visible()
    page.get_by_label("Reason").fill("their host is gone")
    page.get_by_label("Type release 12 to continue").fill("release 12")
    with running_worker(Path(os.environ["OCTO_DATA_DIR"])):
        page.get_by_role("button", name="Force-release 12 locks").click()
        expect(page.get_by_text("Done: 12 released")).to_be_visible(timeout=60_000)
    expect(page.get_by_role("row").filter(has_text="Released from runner-7")).to_have_count(12)
    page.get_by_role("link", name="Released", exact=True).first.click()
    assert api.call("POST", "/locks/kept/renew", {"lease_id": kept["lease_id"]}).status == 200
    assert Event.objects.filter(kind="force_released", actor_name="olga", reason="their host is gone").count() == 12


def test_an_owner_opens_in_place_and_the_filters_stay(page: Page, api: Api):  # noqa: F811
    take(api, "deploy/api", owner="runner-7")
    log_in(page, "victor", NOW + "owners")
    page.get_by_role("link", name="Locks of runner-7").click()
    expect(page.get_by_role("link", name="deploy/api")).to_be_visible()
    expect(page).to_have_url(re.compile(r"owners\?open=\w+$"))
    expect(page.get_by_label("Sort by")).to_have_value("silent")


@pytest.mark.long
def test_without_javascript_the_selection_is_a_plain_form(browser, server, api):  # noqa: F811
    for name in ("one", "two", "three"):
        take(api, name, owner="runner-7")
    context = browser.new_context(
        base_url=server.url, java_script_enabled=False, viewport={"width": 320, "height": 700}
    )
    page = context.new_page()
    log_in(page, "olga", NOW)
    checkbox(page, "one").check()
    checkbox(page, "three").check()
    page.get_by_role("button", name="Force-release selected").click()
    expect(page.get_by_role("heading", name="Force-release 2 locks")).to_be_visible()
    page.get_by_label("Reason").fill("stuck")
    page.get_by_label("Type release 2 to continue").fill("release 2")
    page.get_by_role("button", name="Force-release 2 locks").click()
    expect(page.get_by_role("heading", name="Release of 2 locks")).to_be_visible()
    page.get_by_role("button", name=re.compile("Stop")).click()
    expect(page.get_by_text("2 not attempted")).to_be_visible()
    context.close()
