"""Renders pages with the parts that all share: navigation, keyboard shortcuts, theme, the switcher of spaces."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme

from locks.dashboard.access import SpaceContext, current_user, visible_spaces
from locks.models import Freeze
from locks.services.freezes import in_force
from locks.services.login_throttle import TooMany
from locks.system_state.counters import counters
from locks.system_state.health import unhealthy_parts

THEME_COOKIE = "octo_theme"
THEMES = ("system", "light", "dark")
MAX_SPACES = 200


@dataclass(frozen=True, kw_only=True)
class Page:
    """A page of a space in the navigation."""

    # The `active_page` of its views, and the name of its URL unless `url` is given.
    key: str
    label: str
    icon: str
    # The key that opens it after `g`.
    shortcut: str
    url: str = ""
    # Pages about the set-up of the space stand apart from those about its locks.
    is_setup: bool = False
    admins_only: bool = False
    # The number beside the label; hidden if 0. Computed on every page, so it must be cheap.
    badge: Callable[[SpaceContext], int] | None = None


# In the order of the tabs. A new page is a line here, a path in urls.py and a symbol in layouts/icons.html.
PAGES: tuple[Page, ...] = (
    Page(key="now", label="Now", icon="now", shortcut="n"),
    Page(key="names", label="Names", icon="names", shortcut="b"),
    Page(key="owners", label="Owners", icon="people", shortcut="o"),
    Page(key="runs", label="Runs", icon="runs", shortcut="r"),
    Page(key="stuck", label="Stuck", icon="stuck", shortcut="s", badge=lambda space_context: space_context.stuck),
    Page(key="contention", label="Contention", icon="contention", shortcut="c"),
    Page(key="activity", label="Activity", icon="activity", shortcut="a"),
    Page(key="tokens", label="Tokens", icon="key", shortcut="t", is_setup=True),
    Page(key="team", label="Team", icon="people", shortcut="m", url="team-page", is_setup=True),
    Page(key="alerts", label="Alerts", icon="bell", shortcut="e", is_setup=True),
    Page(key="webhooks", label="Webhooks", icon="webhook", shortcut="w", is_setup=True, admins_only=True),
    Page(key="connect", label="Connect", icon="connect", shortcut="k", is_setup=True),
    Page(
        key="system",
        label="System",
        icon="gauge",
        shortcut="y",
        is_setup=True,
        badge=lambda _: len(unhealthy_parts(counters())),
    ),
)

# Listed in the help besides the pages; static/js/shortcuts.js implements them.
SHORTCUTS: tuple[tuple[str, str], ...] = (
    ("Ctrl K", "search all spaces; ⌘ K on a Mac"),
    ("/", "search this page"),
    ("j k", "next and previous row"),
    ("Enter", "open the row"),
    ("x", "select the row; Shift and a click select a range"),
    ("p", "pause and resume live updates"),
    ("g v", "go to the overview of all spaces"),
    ("g l", "go to the last lock you viewed, or search for one"),
    ("?", "this help"),
)

assert len({page.shortcut for page in PAGES} | {"l", "v"}) == len(PAGES) + 2, "two pages with one shortcut"


@dataclass(frozen=True, kw_only=True)
class Tab:
    page: Page
    url: str
    is_active: bool
    badge: int | None
    # The first of the set-up pages.
    starts_setup: bool


def tabs(space_context: SpaceContext, *, active_page: str) -> list[Tab]:
    """The pages that this user may open."""
    visible = [page for page in PAGES if space_context.may_manage or not page.admins_only]
    first_of_setup = next((page for page in visible if page.is_setup), None)
    return [
        Tab(
            page=page,
            url=space_context.url(page.url or page.key),
            is_active=page.key == active_page,
            badge=page.badge(space_context) if page.badge else None,
            starts_setup=page is first_of_setup,
        )
        for page in visible
    ]


def theme(request: HttpRequest) -> dict[str, Any]:
    """A context processor. The theme is in a cookie, so that a page is never painted in the wrong one first."""
    chosen = request.COOKIES.get(THEME_COOKIE, "system")
    return {
        "theme": chosen if chosen in THEMES else "system",
        "themes": THEMES,
        # Any page may open a dialog that asks for a passkey.
        "passkeys_in_use": settings.PASSKEYS,
    }


def page(
    request: HttpRequest,
    space_context: SpaceContext,
    template: str,
    context: dict[str, Any],
    *,
    active_page: str,
    status: int = 200,
) -> HttpResponse:
    """A whole page of a space, with the navigation."""
    shared = {
        "space_context": space_context,
        "spaces": visible_spaces(current_user(request))[:MAX_SPACES],
        "active_page": active_page,
        "tabs": tabs(space_context, active_page=active_page),
        "freezes": freezes_shown(space_context),
        "shortcuts": SHORTCUTS,
    }
    return render(request, template, {**context, **shared}, status=status)


def freezes_shown(space_context: SpaceContext) -> list[Freeze]:
    """For the banner. A space without any costs no query."""
    if space_context.space.frozen_until is None:
        return []
    return list(in_force(space_context.space).annotate(now=Now()))


def partial(request: HttpRequest, space_context: SpaceContext, template: str, context: dict[str, Any]) -> HttpResponse:
    """A fragment of a page, for htmx. A refresh of the page brings the numbers in the navigation and the
    banner along."""
    response = render(request, template, {**context, "space_context": space_context})
    if is_htmx_target(request, "live-content"):
        shared = {
            "tabs": tabs(space_context, active_page=""), "freezes": freezes_shown(space_context),
            "space_context": space_context, "is_partial": True,
        }  # fmt: skip
        for shared_part in ("layouts/badges.html", "freezes/banner.html"):
            response.content += render_to_string(shared_part, shared, request).encode()
    return response


def is_htmx_target(request: HttpRequest, element: str) -> bool:
    """Whether htmx requests this element of the page rather than the page."""
    return request.headers.get("HX-Request") == "true" and request.headers.get("HX-Target") == element


def safe_next_url(request: HttpRequest, url: str | None) -> str:
    """The URL if it is a path of this site, otherwise the home page. Django takes other texts for names of views."""
    is_safe = url_has_allowed_host_and_scheme(
        url, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return url if url and is_safe and url.startswith("/") else reverse("dashboard:home")


def throttled(request: HttpRequest, refused: TooMany, template: str, context: dict[str, Any]) -> HttpResponse:
    """The form again, with the time to wait before the next attempt."""
    response = render(request, template, {**context, "wait_seconds": refused.seconds}, status=429)
    response["Retry-After"] = str(refused.seconds)
    return response
