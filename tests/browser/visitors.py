"""People who have signed in before. How they do it is tested elsewhere: with the people, and without JavaScript."""

from django.test import Client
from playwright.sync_api import Page

from locks.models import User


def come_back(page: Page, name: str, path: str) -> None:
    """With the cookie of a session, to a server on the loopback address."""
    visitor = Client()
    visitor.force_login(User.objects.get(username=name))
    cookie = visitor.cookies["sessionid"].value
    page.context.add_cookies([{"name": "sessionid", "value": cookie, "domain": "127.0.0.1", "path": "/"}])
    page.goto(path)
