"""A real browser on a real server."""

import os
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.browser import chromium
from tests.servers import RunningServer

# A test waits for a machine that has much else to do.
expect.set_options(timeout=20_000)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """For one file of tests: while it is open, Playwright's event loop stays on the thread, in the way of others."""
    executable = chromium.find()
    if executable is None:
        message = "no Chromium: run `make test`, which installs one, or install it yourself"
        pytest.fail(message) if os.environ.get("CI") else pytest.skip(message)
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=executable, args=list(chromium.ARGUMENTS))
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Browser, server: RunningServer) -> Iterator[Page]:
    """A tab on the live server. The test fails if a page writes an error to the console, breaks the content security
    policy or asks another host for anything."""
    context = browser.new_context(base_url=server.url)
    opened = context.new_page()
    complaints: list[str] = []
    opened.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on(
        "request",
        lambda request: (
            None if request.url.startswith((server.url, "data:", "blob:")) else complaints.append(request.url)
        ),
    )
    yield opened
    context.close()
    assert not complaints
