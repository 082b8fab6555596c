"""What surrounds every page: the way to all the others, the keyboard, the theme, the spaces one can go to."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme

from locks.dashboard.access import SpaceContext, current_user, visible_spaces
from locks.services.login_throttle import TooMany

THEME_COOKIE = "octo_theme"
THEMES = ("system", "light", "dark")
MAX_SPACES = 200


def everyone(_place: SpaceContext) -> bool:
    return True


@dataclass(frozen=True, kw_only=True)
class Page:
    """A page of a space that the navigation leads to."""

    # As views name it in `here`, and the name of its address unless `url` says another.
    key: str
    label: str
    icon: str
    # The letter that leads here after `g`.
    go: str
    url: str = ""
    # Pages about the space's set-up stand apart from those about its work.
    is_setup: bool = False
    seen_by: Callable[[SpaceContext], bool] = everyone
    # What stands beside the label; 0 for nothing. Asked on every page, so it had better be cheap.
    badge: Callable[[SpaceContext], int] | None = None


# In the order of the tabs: Now, Owners, Stuck, Contention, Activity; then Tokens (t), Team (m), Webhooks (w), Connect
# (k) and System (y). A new page is a line active_page, a path in urls.py and a symbol in layouts/icons.html.
PAGES: tuple[Page, ...] = (
    Page(key="now", label="Now", icon="now", go="n"),
    Page(key="owners", label="Owners", icon="people", go="o"),
    Page(key="stuck", label="Stuck", icon="stuck", go="s", badge=lambda place: place.stuck),
    Page(key="contention", label="Contention", icon="contention", go="c"),
    Page(key="activity", label="Activity", icon="activity", go="a"),
    Page(key="tokens", label="Tokens", icon="key", go="t", is_setup=True),
    Page(key="team", label="Team", icon="people", go="m", url="team-page", is_setup=True),
    Page(key="webhooks", label="Webhooks", icon="webhook", go="w", is_setup=True, seen_by=lambda active_page: active_page.may_manage),
    Page(key="connect", label="Connect", icon="connect", go="k", is_setup=True),
    Page(key="system", label="System", icon="gauge", go="y", is_setup=True),
)  # fmt: skip

# What the help shows besides the pages; static/js/shortcuts.js does it.
KEYS: tuple[tuple[str, str], ...] = (
    ("/", "search"),
    ("j k", "next and previous row"),
    ("Enter", "open the row"),
    ("x", "tick the row"),
    ("p", "pause and go on"),
    ("g l", "go to the lock you looked at last, or search for one"),
    ("?", "this help"),
)

assert len({page.go for page in PAGES} | {"l"}) == len(PAGES) + 1, "two pages with one letter"


@dataclass(frozen=True, kw_only=True)
class Tab:
    page: Page
    url: str
    is_active: bool
    badge: int | None
    # Where the set-up begins.
    is_apart: bool


def tabs(place: SpaceContext, *, active_page: str) -> list[Tab]:
    """The pages this current_user may go to."""
    shown = [page for page in PAGES if page.seen_by(place)]
    first_of_setup = next((page for page in shown if page.is_setup), None)
    return [
        Tab(
            page=page,
            url=place.url(page.url or page.key),
            is_active=page.key == active_page,
            badge=page.badge(place) if page.badge else None,
            is_apart=page is first_of_setup,
        )
        for page in shown
    ]


def theme(request: HttpRequest) -> dict[str, Any]:
    """A context processor. In a cookie, so that the page is never painted in the wrong one first."""
    chosen = request.COOKIES.get(THEME_COOKIE, "system")
    return {
        "theme": chosen if chosen in THEMES else "system",
        "themes": THEMES,
        # A dialog may ask for one on any page.
        "passkeys_in_use": settings.PASSKEYS,
    }


def page(
    request: HttpRequest,
    place: SpaceContext,
    template: str,
    context: dict[str, Any],
    *,
    active_page: str,
    status: int = 200,
) -> HttpResponse:
    """A whole page of a space, with the way to all the others."""
    surroundings = {
        "place": place,
        "spaces": visible_spaces(current_user(request))[:MAX_SPACES],
        "active_page": active_page,
        "tabs": tabs(place, active_page=active_page),
        "keys": KEYS,
    }
    return render(request, template, {**context, **surroundings}, status=status)


def partial(request: HttpRequest, place: SpaceContext, template: str, context: dict[str, Any]) -> HttpResponse:
    """Only what changes."""
    return render(request, template, {**context, "place": place, "is_part": True})


def is_htmx_target(request: HttpRequest, element: str) -> bool:
    """Whether htmx asks for one element of the page, and not for the page."""
    return request.headers.get("HX-Request") == "true" and request.headers.get("HX-Target") == element


def safe_next_url(request: HttpRequest, wanted: str | None) -> str:
    """Where somebody wants to be led next, if that is a page of ours; the front door otherwise."""
    own = wanted and url_has_allowed_host_and_scheme(
        wanted, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return wanted if wanted and own else reverse("dashboard:home")


def throttled(request: HttpRequest, refused: TooMany, template: str, context: dict[str, Any]) -> HttpResponse:
    """The form again, with how long to wait until it is looked at."""
    response = render(request, template, {**context, "wait_seconds": refused.seconds}, status=429)
    response["Retry-After"] = str(refused.seconds)
    return response
