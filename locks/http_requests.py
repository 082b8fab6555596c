"""What views and services read from a request of a browser."""

from urllib.parse import SplitResult, urlsplit

from django.http import HttpRequest

from locks.models import User


def current_user(request: HttpRequest) -> User:
    assert isinstance(request.user, User)
    return request.user


def request_id(request: HttpRequest) -> str:
    """Set by the middleware for every request."""
    return str(request.request_id)  # type: ignore[attr-defined]  # the middleware's attribute


def is_htmx_target(request: HttpRequest, element: str) -> bool:
    """Whether htmx requests one element of the page, and not the page."""
    return request.headers.get("HX-Request") == "true" and request.headers.get("HX-Target") == element


def parse_url(header: str) -> SplitResult:
    """An invalid URL counts as an empty one."""
    try:
        return urlsplit(header)
    except ValueError:
        return urlsplit("")
