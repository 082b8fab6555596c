"""Signed-in visitors. Signing in itself is tested in test_people.py and without JavaScript."""

from django.test import Client
from playwright.sync_api import Page

from locks.models import User


def come_back(page: Page, name: str, path: str) -> None:
    """Opens the path with a session cookie for the loopback address."""
    visitor = Client()
    visitor.force_login(User.objects.get(username=name))
    cookie = visitor.cookies["sessionid"].value
    page.context.add_cookies([{"name": "sessionid", "value": cookie, "domain": "127.0.0.1", "path": "/"}])
    page.goto(path)
