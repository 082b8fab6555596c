"""Reauthentication in the dashboard: on pages of a space, the prompt has the navigation of the space."""

from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseBase

from locks import reauthentication_prompt
from locks.dashboard.access import SpaceContext, View
from locks.dashboard.rendering import page


def recently_confirmed(view: View) -> View:
    """Goes right above the view, under `space_required` or `login_required`."""

    @wraps(view)
    def confirmed(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        place = next((argument for argument in args if isinstance(argument, SpaceContext)), None)
        return require_reauthentication(request, place) or view(request, *args, **kwargs)

    return confirmed


def require_reauthentication(request: HttpRequest, place: SpaceContext | None = None) -> HttpResponse | None:
    """For views that need a proof in some cases only: the prompt, or None if no proof is needed."""
    if place is None:
        return reauthentication_prompt.require_reauthentication(request)

    def render_page(request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
        template = "reauthentication/page.html"
        return page(request, place, template, context, active_page="confirmation", status=403)

    return reauthentication_prompt.require_reauthentication(request, render_page=render_page)
