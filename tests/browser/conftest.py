"""A real browser on a real server."""

import os
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.browser import chromium
from tests.servers import RunningServer, SharedServers

# The machine may be busy.
expect.set_options(timeout=20_000)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """For these tests only: while it is open, Playwright's event loop occupies the thread."""
    executable = chromium.find()
    if executable is None:
        message = "no Chromium: run `make test`, which installs one, or install it yourself"
        pytest.fail(message) if os.environ.get("CI") else pytest.skip(message)
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=executable, args=list(chromium.ARGUMENTS))
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def port(shared_servers: SharedServers) -> int:
    return shared_servers.get().port


@pytest.fixture(scope="module")
def context(browser: Browser, port: int) -> Iterator[BrowserContext]:
    """A new one for each test would be a new process, which compiles all scripts again: more than a second."""
    opened = browser.new_context(base_url=f"http://127.0.0.1:{port}")
    # Otherwise the process would end with the tab of a test.
    opened.new_page()
    yield opened
    opened.close()


@pytest.fixture
def page(context: BrowserContext, server: RunningServer) -> Iterator[Page]:
    """A tab on the live server. The test fails if a page writes an error to the console, violates the content security
    policy or sends a request to another host."""
    opened = context.new_page()
    errors: list[str] = []
    opened.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.on(
        "request",
        lambda request: None if request.url.startswith((server.url, "data:", "blob:")) else errors.append(request.url),
    )
    yield opened
    _clear(context, opened, server.url)
    assert not errors


def _clear(context: BrowserContext, page: Page, origin: str) -> None:
    """Nothing of one test is left for the next, except for cached files."""
    kinds = "cookies,local_storage,indexeddb,service_workers"
    context.new_cdp_session(page).send("Storage.clearDataForOrigin", {"origin": origin, "storageTypes": kinds})
    context.clear_cookies()
    context.clear_permissions()
    for opened in context.pages[1:]:
        opened.close()
