"""What surrounds every page: the theme, and the spaces one can go to."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme

from locks.dashboard.access import Place, person, visible_spaces

THEME_COOKIE = "octo_theme"
THEMES = ("system", "light", "dark")
MOST_SPACES = 200


def theme(request: HttpRequest) -> dict[str, Any]:
    """A context processor. In a cookie, so that the page is never painted in the wrong one first."""
    chosen = request.COOKIES.get(THEME_COOKIE, "system")
    return {"theme": chosen if chosen in THEMES else "system", "themes": THEMES}


def page(
    request: HttpRequest, place: Place, template: str, context: dict[str, Any], *, here: str, status: int = 200
) -> HttpResponse:
    """A whole page of a space, with the way to all the others."""
    spaces = visible_spaces(person(request))[:MOST_SPACES]
    return render(request, template, {**context, "place": place, "spaces": spaces, "here": here}, status=status)


def part(request: HttpRequest, place: Place, template: str, context: dict[str, Any]) -> HttpResponse:
    """Only what changes."""
    return render(request, template, {**context, "place": place})


def asks_for(request: HttpRequest, element: str) -> bool:
    """Whether htmx asks for one element of the page, and not for the page."""
    return request.headers.get("HX-Request") == "true" and request.headers.get("HX-Target") == element


def own_address(request: HttpRequest, wanted: str | None) -> str:
    """Where somebody wants to be led next, if that is a page of ours; the front door otherwise."""
    own = wanted and url_has_allowed_host_and_scheme(
        wanted, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return wanted if wanted and own else reverse("dashboard:home")
