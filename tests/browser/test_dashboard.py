"""The dashboard in a real browser: live rows, countdown, force-release."""

import re

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.browser.visitors import log_in
from tests.servers import Api, RunningServer

pytestmark = pytest.mark.timeout(120)

NOW = "/ui/blue/main/"


@pytest.fixture(autouse=True)
def _people(committed: None, request: pytest.FixtureRequest) -> None:
    for name in ("olga", "victor", "space"):
        request.getfixturevalue(name)


@pytest.fixture
def api(server: RunningServer, space, worker_token) -> Api:
    return server.api(worker_token)


def watch(page: Page, name: str) -> None:
    log_in(page, name, NOW)
    expect(page.get_by_text("Live", exact=True)).to_be_visible()


def take(api: Api, name: str, **terms) -> dict:
    answer = api.call("POST", f"/locks/{name}/acquire", {"ttl_seconds": 60, **terms})
    assert answer.status == 200
    return answer.json()


def row(page: Page, name: str):
    return page.get_by_role("row").filter(has=page.get_by_role("link", name=name, exact=True))


def wait_until_below(page: Page, left: Locator, seconds: int) -> None:
    """The page counts when the machine lets it."""
    while int(left.inner_text().split()[0]) >= seconds:
        page.wait_for_timeout(100)


def test_a_lock_appears_without_reload_and_counts_down(page: Page, api: Api):
    watch(page, "victor")
    expect(page.get_by_text("No active locks")).to_be_visible()
    page.evaluate("window.stays = true")
    other_tab = page.context.new_page()
    other_tab.goto(NOW)
    expect(other_tab.get_by_text("Live", exact=True)).to_be_visible()
    take(api, "deploy/api", owner="runner-7", metadata="build=1842", ttl_seconds=50)
    expect(row(page, "deploy/api")).to_be_visible()
    expect(row(other_tab, "deploy/api")).to_be_visible()
    other_tab.close()
    left = row(page, "deploy/api").locator("[data-until]")
    wait_until_below(page, left, int(left.inner_text().split()[0]))
    assert page.evaluate("window.stays")


def test_a_heartbeat_moves_the_bar(page: Page, api: Api):
    held = take(api, "job", ttl_seconds=30)
    watch(page, "victor")
    left = row(page, "job").locator("[data-until]")
    wait_until_below(page, left, 28)
    api.call("POST", "/locks/job/renew", {"lease_id": held["lease_id"], "ttl_seconds": 300})
    expect(left).to_contain_text("min")


def test_open_rows_and_focus_survive_what_happens_around_them(page: Page, api: Api):
    take(api, "job", metadata="step=tests")
    watch(page, "victor")
    page.get_by_role("link", name="Details of job").press("Enter")
    expect(page.get_by_role("heading", name="Last events")).to_be_visible()
    expect(page).to_have_url(re.compile(r"open=\d+"))
    toggle = page.get_by_role("link", name="Details of job")
    toggle.focus()
    take(api, "another")
    expect(row(page, "another")).to_be_visible()
    expect(page.get_by_role("heading", name="Last events")).to_be_visible()
    expect(toggle).to_be_focused()


def test_search_is_in_the_address_and_the_back_button_undoes_it(page: Page, api: Api):
    take(api, "deploy/api", owner="runner-7")
    take(api, "cron/backup", owner="cron-a")
    watch(page, "victor")
    page.keyboard.press("/")
    page.keyboard.type("backup")
    expect(row(page, "deploy/api")).to_have_count(0)
    expect(page).to_have_url(re.compile(r"\?q=backup$"))
    page.go_back()
    expect(row(page, "deploy/api")).to_be_visible()
    expect(page.get_by_placeholder("Search name")).to_have_value("")
    row(page, "deploy/api").get_by_role("link", name="runner-7").click()
    expect(page.get_by_role("heading", name="runner-7")).to_be_visible()
    page.get_by_role("link", name="Locks on Now").click()
    expect(row(page, "cron/backup")).to_have_count(0)
    expect(page.get_by_role("textbox", name="Owner")).to_have_value("runner-7")
    page.goto(NOW + "?q=backup&sort=name")
    expect(row(page, "cron/backup")).to_be_visible()
    expect(row(page, "deploy/api")).to_have_count(0)
    expect(page.get_by_label("Sort by")).to_have_value("name")


def test_leaving_the_search_asks_for_nothing_and_a_row_opened_next_stays_open(page: Page, api: Api):
    take(api, "deploy/api")
    watch(page, "victor")
    page.keyboard.press("/")
    page.keyboard.type("deploy")
    expect(page).to_have_url(re.compile(r"\?q=deploy$"))
    pages = page.evaluate("history.length")
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Last events")).to_be_visible()
    expect(page).to_have_url(re.compile(r"\?q=deploy&open=\d+$"))
    assert page.evaluate("history.length") == pages + 1


def hold_refreshes(page: Page) -> list[Route]:
    """The requests of the page for its live content from now on, which get no answer until they are continued."""
    late: list[Route] = []
    page.route(
        lambda url: url.endswith(NOW),
        lambda route: (
            late.append(route) if route.request.headers.get("hx-target") == "live-content" else route.continue_()
        ),
    )
    return late


def wait_held(page: Page, late: list[Route]) -> None:
    # A loop of Python's would not let Playwright's run.
    while not late:
        page.wait_for_timeout(50)


def test_a_late_refresh_does_not_undo_a_search(page: Page, api: Api):
    take(api, "deploy/api")
    take(api, "cron/backup")
    watch(page, "victor")
    late = hold_refreshes(page)
    take(api, "another")
    wait_held(page, late)
    page.get_by_placeholder("Search name").fill("backup")
    expect(row(page, "deploy/api")).to_have_count(0)
    for route in late:
        route.continue_()
    page.wait_for_timeout(1_000)
    expect(row(page, "deploy/api")).to_have_count(0)
    page.unroute_all()


def test_a_refresh_that_arrives_when_a_dialog_is_open_waits_until_it_is_closed(page: Page, api: Api):
    held = take(api, "first")
    take(api, "second")
    watch(page, "olga")
    late = hold_refreshes(page)
    api.call("POST", "/locks/first/release", {"lease_id": held["lease_id"]})
    wait_held(page, late)
    page.get_by_role("link", name="Force-release first").press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    with page.expect_response(lambda response: response.url.endswith(NOW)):
        for route in late:
            route.continue_()
    page.unroute_all()
    page.wait_for_timeout(1_500)
    expect(page.get_by_role("row").filter(has_text="first")).to_have_count(1)
    page.keyboard.press("Escape")
    page.mouse.move(5, 5)
    expect(row(page, "first")).to_have_count(0)
    expect(page.get_by_role("link", name="Details of second")).to_be_focused()


def test_a_click_on_the_pill_shows_also_what_is_being_fetched(page: Page, api: Api):
    watch(page, "victor")
    late = hold_refreshes(page)
    take(api, "job")
    wait_held(page, late)
    page.keyboard.press("p")
    page.get_by_role("button", name=re.compile(r"\+\d+ change")).click()
    for route in late:
        route.continue_()
    page.unroute_all()
    expect(row(page, "job")).to_be_visible()


def test_force_release_with_a_reason(page: Page, api: Api):
    held = take(api, "job", owner="runner-7")
    watch(page, "olga")
    page.get_by_role("link", name="Force-release job").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("still heartbeating")
    dialog.get_by_label("Reason").fill("its host is gone")
    dialog.get_by_label("Type job to continue").fill("job")
    dialog.get_by_role("button", name="Force-release from runner-7").click()
    expect(dialog.get_by_role("heading", name="Released")).to_be_visible()
    refused = api.call("POST", "/locks/job/renew", {"lease_id": held["lease_id"]})
    assert (refused.status, refused.json()["code"]) == (404, "lease_not_current")
    dialog.get_by_role("link", name="Event in the history").click()
    expect(page.get_by_text("its host is gone")).to_be_visible()
    expect(page.get_by_text("olga force-released it from runner-7")).to_be_visible()
    page.goto(NOW + "activity?kind=force_released")
    (forced,) = page.locator("tr[data-row]").all()
    expect(forced).to_contain_text("its host is gone")
    expect(forced.get_by_role("link", name="olga")).to_be_visible()


def test_the_guard_refuses_when_the_owner_changed_while_the_dialog_was_open(page: Page, api: Api):
    held = take(api, "job", owner="runner-7")
    watch(page, "olga")
    page.get_by_role("link", name="Force-release job").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("stuck")
    dialog.get_by_label("Type job to continue").fill("job")
    api.call("POST", "/locks/job/release", {"lease_id": held["lease_id"]})
    again = take(api, "job", owner="runner-9")
    expect(page.get_by_role("button", name=re.compile(r"\+\d+ change"))).to_have_count(1)
    dialog.get_by_role("button", name="Force-release from runner-7").click()
    expect(dialog).to_contain_text("Nothing was released")
    expect(dialog).to_contain_text("runner-9")
    dialog.get_by_role("link", name="Close").click()
    expect(dialog).to_be_hidden()
    expect(row(page, "job")).to_contain_text("runner-9")
    assert api.call("POST", "/locks/job/renew", {"lease_id": again["lease_id"]}).status == 200


def test_activity_announces_new_events_and_does_not_move(page: Page, api: Api):
    log_in(page, "victor", NOW + "connect")
    expect(page.get_by_role("heading", name="Waiting for the first lease")).to_be_visible()
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    take(api, "first")
    expect(page.get_by_role("heading", name="First lease received")).to_be_visible()
    expect(page.get_by_role("status")).to_have_text("First lease received: first.")
    # Once it has connected, it counts what is new.
    with page.expect_response(re.compile("/activity/new-count")):
        page.goto(NOW + "activity")
        expect(page.get_by_text("Live", exact=True)).to_be_visible()
    take(api, "second")
    news = page.get_by_role("button", name="1 new, show")
    expect(news).to_be_visible()
    expect(page.get_by_role("link", name="second")).to_have_count(0)
    news.click()
    expect(page.get_by_role("link", name="second")).to_be_visible()


def test_the_theme_changes_at_once_and_stays(page: Page):
    log_in(page, "victor", NOW)
    page.get_by_role("button", name="Dark theme").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


@pytest.mark.long
def test_without_javascript_people_read_filter_and_force(browser, server, api):
    held = take(api, "job", owner="runner-7")
    take(api, "other")
    context = browser.new_context(
        base_url=server.url, java_script_enabled=False, viewport={"width": 320, "height": 700}
    )
    page = context.new_page()
    log_in(page, "olga", NOW)
    page.get_by_placeholder("Search name").fill("job")
    page.get_by_role("button", name="Search").click()
    expect(row(page, "other")).to_have_count(0)
    page.get_by_role("link", name="Details of job").click()
    expect(page.get_by_role("heading", name="Last events")).to_be_visible()
    page.get_by_role("link", name="Force-release job").click()
    page.get_by_label("Reason").fill("stuck")
    page.get_by_label("Type job to continue").fill("job")
    page.get_by_role("button", name="Force-release from runner-7").click()
    expect(page.get_by_role("heading", name="Released")).to_be_visible()
    assert api.call("POST", "/locks/job/renew", {"lease_id": held["lease_id"]}).status == 404
    context.close()


def test_an_open_page_says_that_it_is_stale_and_comes_back_with_the_server(browser, server, api):
    take(api, "job", ttl_seconds=600)
    context = browser.new_context(base_url=server.url)
    page = context.new_page()
    page.clock.install()
    watch(page, "victor")
    server.kill()
    expect(page.get_by_text("Polling")).to_be_visible()
    expect(page.locator("#live-content")).not_to_have_class(re.compile("is-stale"))
    page.clock.fast_forward(15_000)
    expect(page.get_by_role("button", name="Stale")).to_be_visible()
    expect(page.locator("#live-content")).to_have_class(re.compile("is-stale"))
    server.start()
    take(server.api(api._token), "later")
    expect(row(page, "later")).to_be_visible()
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    expect(page.locator("#live-content")).not_to_have_class(re.compile("is-stale"))
    context.close()


def test_paused_changes_wait_behind_a_pill(page: Page, api: Api):
    watch(page, "victor")
    page.keyboard.press("p")
    expect(page.get_by_text("Paused", exact=True)).to_be_visible()
    take(api, "job")
    pill = page.get_by_role("button", name=re.compile(r"\+\d+ change"))
    expect(pill).to_be_visible()
    expect(row(page, "job")).to_have_count(0)
    pill.click()
    expect(row(page, "job")).to_be_visible()


def test_a_state_that_is_due_while_updates_are_paused_waits_behind_the_pill(page: Page, api: Api):
    """No event announces that a lease was not renewed in time."""
    take(api, "job", ttl_seconds=15)
    watch(page, "victor")
    page.keyboard.press("p")
    pill = page.get_by_role("button", name=re.compile(r"\+\d+ change"))
    expect(pill).to_be_visible()
    pill.click()
    expect(pill).to_be_hidden()


def test_the_keyboard_reaches_everything(page: Page, api: Api):
    take(api, "first")
    take(api, "second")
    watch(page, "victor")
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(page.get_by_role("link", name="Details of second")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Last events")).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("a")
    expect(page).to_have_url(re.compile("/activity$"))
    page.goto(NOW + "locks/first")
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("c")
    expect(page.get_by_role("heading", name="Contention", exact=True)).to_be_visible()
    # The shortcuts work once the scripts have run.
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("l")
    expect(page).to_have_url(re.compile("/locks/first$"))


@pytest.mark.parametrize(
    ("failure", "cause"),
    [pytest.param("abort", "cannot be reached", marks=pytest.mark.long), ("502", "answered 502")],
)
def test_a_failed_request_says_so(browser, server, api, failure, cause):
    take(api, "job", owner="runner-7")
    context = browser.new_context(base_url=server.url)
    page = context.new_page()
    watch(page, "olga")

    def fail(route):
        route.abort() if failure == "abort" else route.fulfill(status=502, body="Bad gateway")

    page.route("**/force-release", fail)
    page.get_by_role("link", name="Force-release job").click()
    expect(page.get_by_role("alert")).to_contain_text("Not sent")
    expect(page.get_by_role("alert")).to_contain_text(cause)
    page.unroute("**/force-release")
    page.get_by_role("link", name="Force-release job").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("stuck")
    expect(page.get_by_role("alert")).to_have_count(0)
    dialog.get_by_label("Type job to continue").fill("job")
    page.route("**/force-release", fail)
    dialog.get_by_role("button", name="Force-release from runner-7").click()
    expect(dialog.get_by_role("alert")).to_contain_text("Outcome unknown")
    expect(dialog.get_by_label("Reason")).to_have_value("stuck")
    context.set_offline(True)
    dialog.get_by_role("button", name="Force-release from runner-7").click()
    expect(dialog.get_by_role("alert")).to_contain_text("Not sent: this browser is offline")
    context.close()


def test_a_request_under_way_is_shown(page: Page, api: Api):
    take(api, "job", owner="runner-7")
    watch(page, "olga")
    waiting = []

    def hold(route):
        waiting.append(route)

    page.route("**/force-release", hold)
    link = page.get_by_role("link", name="Force-release job")
    link.click()
    expect(page.locator("#request-progress")).to_be_visible()
    expect(link).to_have_attribute("aria-busy", "true")
    waiting[0].continue_()
    expect(page.get_by_role("dialog")).to_contain_text("runner-7")
    expect(page.locator("#request-progress")).to_be_hidden()


def order(page: Page) -> list[str]:
    return [name.strip() for name in page.locator("tr[data-row] .name").all_inner_texts()]


def test_rows_do_not_move_under_the_pointer(page: Page, api: Api):
    first = take(api, "first", ttl_seconds=100)
    take(api, "second", ttl_seconds=200)
    gone = take(api, "third", ttl_seconds=300)
    log_in(page, "victor", NOW + "?sort=left")
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    assert order(page) == ["first", "second", "third"]
    row(page, "second").hover()
    api.call("POST", "/locks/first/renew", {"lease_id": first["lease_id"], "ttl_seconds": 280})
    api.call("POST", "/locks/third/release", {"lease_id": gone["lease_id"]})
    take(api, "fourth", ttl_seconds=50)
    expect(row(page, "fourth")).to_be_visible()
    expect(row(page, "first").locator("[data-until]")).to_contain_text("4 min")
    assert order(page) == ["first", "second", "third", "fourth"]
    expect(page.locator("tr.is-ended")).to_have_count(1)
    page.mouse.move(5, 5)
    expect(page.locator("tr.is-ended")).to_have_count(0)
    assert order(page) == ["fourth", "second", "first"]


def test_rows_do_not_move_while_one_has_the_focus(page: Page, api: Api):
    first = take(api, "first", ttl_seconds=100)
    take(api, "second", ttl_seconds=200)
    log_in(page, "victor", NOW + "?sort=left")
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    page.get_by_role("link", name="Details of second").focus()
    api.call("POST", "/locks/first/renew", {"lease_id": first["lease_id"], "ttl_seconds": 290})
    expect(row(page, "first").locator("[data-until]")).to_contain_text("4 min")
    assert order(page) == ["first", "second"]
    page.get_by_placeholder("Search name").focus()
    expect(page.locator("tr[data-row] .name").first).to_have_text("second")


def test_the_focus_moves_to_the_next_row_after_a_force_release(page: Page, api: Api):
    take(api, "first", owner="runner-7")
    take(api, "second")
    watch(page, "olga")
    page.get_by_role("link", name="Force-release first").press("Enter")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("stuck")
    dialog.get_by_label("Type first to continue").fill("first")
    dialog.get_by_role("button", name="Force-release from runner-7").click()
    page.mouse.move(5, 5)
    dialog.get_by_role("link", name="Done").press("Enter")
    expect(row(page, "first")).to_have_count(0)
    expect(page.get_by_role("link", name="Details of second")).to_be_focused()


def test_a_dialog_on_a_small_screen_begins_with_its_title(page: Page, api: Api):
    take(api, "job", owner="runner-7", metadata=" ".join(f"key{n}={'v' * 30}" for n in range(20)))
    page.set_viewport_size({"width": 320, "height": 500})
    watch(page, "olga")
    page.get_by_role("link", name="Force-release job").click()
    expect(page.get_by_role("dialog").get_by_label("Reason")).to_be_focused()
    expect(page.get_by_role("heading", name="Force-release job")).to_be_in_viewport()
