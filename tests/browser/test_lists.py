"""Lists in a real browser: the tree of names, what Now is filtered, sorted and grouped by, and the timeline."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.test_bulk_release import checkbox
from tests.browser.test_dashboard import _people, api, row, take, watch  # noqa: F401 -- fixtures
from tests.browser.visitors import log_in
from tests.servers import Api

pytestmark = pytest.mark.timeout(120)

NOW = "/ui/blue/main/"


def test_folders_of_names_open_in_place_and_stay_live(page: Page, api: Api):  # noqa: F811
    take(api, "deploy/api", owner="runner-7")
    take(api, "path:src/auth.rs")
    log_in(page, "olga", f"{NOW}names")
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    page.evaluate("window.stays = true")
    page.get_by_role("link", name="Open deploy/").click()
    expect(row(page, "api")).to_contain_text("runner-7")
    expect(page).to_have_url(re.compile(r"open=deploy%2F"))
    page.mouse.move(0, 0)
    take(api, "deploy/web")
    expect(row(page, "web")).to_be_visible()
    page.get_by_role("link", name="Close deploy/").click()
    expect(row(page, "api")).to_have_count(0)
    assert page.evaluate("window.stays")
    row(page, "deploy/").get_by_role("button", name="Force-release all of deploy/").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("2")
    expect(page.get_by_role("link", name="deploy/web")).to_be_visible()


def test_now_is_filtered_sorted_grouped_and_selected_by_clicks(page: Page, api: Api):  # noqa: F811
    for name in ("a/1", "a/2", "b/1", "b/2"):
        take(api, name, owner=f"owner of {name}")
    watch(page, "olga")
    page.get_by_role("link", name="Overdue", exact=True).click()
    expect(page.get_by_text("No active lock matches")).to_be_visible()
    expect(page.get_by_label("State")).to_have_value("overdue")
    page.get_by_role("link", name="Held", exact=True).click()
    expect(page.locator("#list-caption")).to_contain_text("4 matching")
    heading = page.get_by_role("columnheader", name="Lock")
    heading.get_by_role("link").click()
    expect(heading).to_have_attribute("aria-sort", "ascending")
    expect(page).to_have_url(re.compile(r"state=held.*sort=name|sort=name.*state=held"))
    checkbox(page, "a/1").click()
    checkbox(page, "b/1").click(modifiers=["Shift"])
    expect(page.get_by_text("3 selected")).to_be_visible()
    expect(checkbox(page, "a/2")).to_be_checked()
    checkbox(page, "a/2").click(modifiers=["Shift"])
    expect(page.get_by_text("1 selected", exact=True)).to_be_visible()
    page.get_by_role("button", name="Clear").click()
    page.get_by_label("Group by").select_option("prefix")
    page.get_by_role("link", name="Locks of a/").click()
    expect(row(page, "a/1")).to_have_count(0)
    expect(row(page, "b/1")).to_be_visible()
    # The headings stay below the tabs.
    page.set_viewport_size({"width": 1280, "height": 300})
    page.evaluate("document.querySelector('.pager, .locks').scrollIntoView({block: 'end'})")
    expect(heading).to_be_in_viewport()


def test_dragging_over_the_timeline_zooms_in(page: Page, api: Api):  # noqa: F811
    take(api, "deploy/api", owner="runner-7")
    log_in(page, "victor", f"{NOW}timeline?span=1h&prefix=deploy/")
    lane = page.get_by_role("img", name="1 hold of deploy/api").bounding_box()
    assert lane is not None
    page.mouse.move(lane["x"] + lane["width"] * 0.5, lane["y"] + 5)
    page.mouse.down()
    page.mouse.move(lane["x"] + lane["width"] - 1, lane["y"] + 5)
    expect(page.locator(".lane-brush")).to_be_visible()
    page.mouse.up()
    expect(page).to_have_url(re.compile(r"since=\d{4}-.*until=\d{4}-"))
    expect(page.get_by_label("From, UTC")).not_to_have_value("")
    page.get_by_role("link", name="24h").click()
    expect(page).not_to_have_url(re.compile("since"))
    expect(page.get_by_role("img", name="1 hold of deploy/api")).to_be_visible()
