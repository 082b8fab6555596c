"""A real browser on a real server."""

import os
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.browser import chromium
from tests.servers import RunningServer

# The machine may be busy.
expect.set_options(timeout=20_000)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """For one test module: while it is open, Playwright's event loop occupies the thread."""
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
    """A tab on the live server. The test fails if a page writes an error to the console, violates the content security
    policy or sends a request to another host."""
    context = browser.new_context(base_url=server.url)
    opened = context.new_page()
    errors: list[str] = []
    opened.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.on(
        "request",
        lambda request: None if request.url.startswith((server.url, "data:", "blob:")) else errors.append(request.url),
    )
    yield opened
    context.close()
    assert not errors
