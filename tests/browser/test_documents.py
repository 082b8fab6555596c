"""The API's documentation, as a person sees it."""

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.timeout(120)


def test_swagger_ui_shows_the_operations(page):
    page.goto("/docs")
    expect(page.get_by_text("Acquire a lock", exact=True)).to_be_visible()
    expect(page.get_by_text("Octoadmin").first).to_be_visible()
