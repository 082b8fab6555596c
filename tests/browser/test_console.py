"""Overview, search over all spaces, asking for a release and being told that a lock is free, in a real browser."""

import re

import pytest
from playwright.sync_api import Page, expect

from locks.models import Space
from tests.browser.visitors import log_in
from tests.servers import Api, RunningServer

pytestmark = pytest.mark.timeout(180)

NOW = "/ui/blue/main/"


@pytest.fixture(autouse=True)
def _people(committed: None, request: pytest.FixtureRequest) -> None:
    for name in ("olga", "victor", "space"):
        request.getfixturevalue(name)


@pytest.fixture
def api(server: RunningServer, space, worker_token) -> Api:
    return server.api(worker_token)


def take(api: Api, name: str, **options) -> dict:
    answer = api.call("POST", f"/locks/{name}/acquire", {"ttl_seconds": 600, **options})
    assert answer.status == 200
    return answer.json()


def test_ctrl_k_finds_a_lock_and_opens_it_with_the_keyboard(page: Page, api: Api):
    take(api, "deploy/api", owner="runner-7")
    take(api, "deploy/web")
    log_in(page, "victor", f"{NOW}stuck")
    inbox = page.get_by_role("link", name="Stuck", exact=True)
    inbox.focus()
    page.keyboard.press("Control+k")
    box = page.get_by_role("combobox", name="Lock, owner, token")
    expect(box).to_be_focused()
    expect(page.get_by_role("option", name="Owners")).to_be_visible()
    page.keyboard.press("Escape")
    expect(box).to_be_hidden()
    expect(inbox).to_be_focused()
    page.keyboard.press("Control+k")
    page.keyboard.type("deploy/")
    web = page.get_by_role("option", name="deploy/web")
    expect(page.get_by_role("option", name="deploy/api")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowDown")
    expect(web).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowDown")
    expect(web).to_have_attribute("aria-selected", "false")
    page.keyboard.press("ArrowUp")
    # The first refresh of the next page: closing the tab during a request would be an error in its console.
    with page.expect_response(lambda answer: "hx-request" in answer.request.headers and "/locks/" in answer.url):
        page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/locks/deploy/web$"))


def test_the_help_lists_the_search(page: Page):
    log_in(page, "victor", f"{NOW}team")
    page.keyboard.press("?")
    expect(page.get_by_text("search all spaces; ⌘ K on a Mac")).to_be_visible()


def test_the_secret_of_a_pasted_token_is_not_sent(page: Page, api: Api, worker_token: str):
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    log_in(page, "victor", NOW)
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Lock, owner, token").fill(worker_token)
    expect(page.get_by_role("option", name=re.compile("^worker"))).to_be_visible()
    secret = worker_token.split("_")[2]
    assert not [url for url in requested if secret in url]


def test_the_overview_is_live(page: Page, api: Api, blue):
    Space.objects.create(team=blue, slug="staging", name="Staging")
    log_in(page, "victor", "/ui/")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    main = page.get_by_role("row").filter(has=page.get_by_role("link", name="Blue / Main"))
    expect(main.get_by_role("cell").nth(0)).to_have_text("0")
    take(api, "job")
    expect(main.get_by_role("cell").nth(0)).to_have_text("1")
    main.get_by_role("link", name="Blue / Main").click()
    expect(page).to_have_url(re.compile(f"{NOW}$"))


def test_a_viewer_asks_for_release_and_is_told_when_the_lock_is_free(page: Page, api: Api):
    held = take(api, "deploy/api", owner="runner-7", metadata="contact=ada@example.com")
    # The browser is asked for notifications as it would ask the user, who refuses: the message on the page remains.
    page.add_init_script("Notification.requestPermission = async () => 'denied'")
    log_in(page, "victor", f"{NOW}locks/deploy/api")
    page.get_by_role("link", name="Ask for release…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("link", name="ada@example.com")).to_be_visible()
    dialog.get_by_label("Reason").fill("the hotfix waits")
    dialog.get_by_role("button", name="Ask for release").click()
    expect(dialog.get_by_text("The operators see your request")).to_be_visible()
    dialog.get_by_role("link", name="Close").click()
    expect(page.get_by_role("link", name="Ask for release…")).to_be_focused()
    expect(page.get_by_text("Release requested by victor")).to_be_visible()
    tell = page.get_by_role("button", name="Tell me when it is free")
    tell.click()
    expect(tell).to_have_attribute("aria-pressed", "true")
    api.call("POST", "/locks/deploy/api/release", {"lease_id": held["lease_id"]})
    expect(page.get_by_text("deploy/api is free.")).to_be_visible()


def test_a_notification_is_shown_where_it_is_allowed(page: Page, api: Api):
    held = take(api, "job")
    page.add_init_script(
        """window.Notification = class { static permission = "granted"; constructor(text) { document.title = text } }"""
    )
    log_in(page, "victor", f"{NOW}locks/job")
    page.get_by_role("button", name="Tell me when it is free").click()
    api.call("POST", "/locks/job/release", {"lease_id": held["lease_id"]})
    expect(page).to_have_title("job is free.")


def test_filters_that_were_changed_on_the_page_are_saved(page: Page, api: Api):
    take(api, "deploy/api")
    log_in(page, "victor", NOW)
    page.get_by_role("textbox", name="Prefix").fill("deploy/")
    expect(page).to_have_url(re.compile("prefix=deploy"))
    page.get_by_text("Saved filters").click()
    page.get_by_label("Save the present filters as").fill("Deploys")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("Filter saved as Deploys.")).to_be_visible()
    page.goto(NOW)
    page.get_by_text("Saved filters").click()
    page.get_by_role("link", name="Deploys").click()
    expect(page).to_have_url(re.compile(r"\?prefix=deploy%2F$"))


def test_a_question_mark_explains_a_term(page: Page, api: Api):
    take(api, "job")
    log_in(page, "victor", NOW)
    definition = page.get_by_text("was neither reclaimed nor acquired since")
    expect(definition).to_be_hidden()
    page.get_by_role("button", name="What does overdue mean?").press("Enter")
    expect(definition).to_be_visible()
    page.keyboard.press("Escape")
    expect(definition).to_be_hidden()
