"""Signing in: with the form, or with the cookie of a session where the form is not what is tested."""

from playwright.sync_api import Page

from locks.models import User
from tests.conftest import PASSWORD, session_cookie


def sign_in(page: Page, name: str, path: str = "/ui/sign-in") -> None:
    """With the form. Ends on the page that was asked for, or at the second step."""
    page.goto(path)
    page.get_by_label("User name or e-mail").fill(name)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: not url.endswith("/sign-in") and "/sign-in?" not in url, wait_until="load")
    assert path == "/ui/sign-in" or "/sign-in/" in page.url or page.url.endswith(path)


def log_in(page: Page, name: str, path: str) -> None:
    """With the cookie of a session, on a server on the loopback address."""
    cookie = session_cookie(User.objects.get(username=name))
    page.context.add_cookies([{"name": "sessionid", "value": cookie, "domain": "127.0.0.1", "path": "/"}])
    page.goto(path)
