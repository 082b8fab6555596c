"""The first page, the redirects to a space, and the choice of a theme."""

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from locks.dashboard.access import current_user, login_required, visible_spaces
from locks.dashboard.overview.views import overview
from locks.dashboard.rendering import THEME_COOKIE, THEMES, safe_next_url

YEAR_SECONDS = 31_536_000


def root(request: HttpRequest) -> HttpResponse:
    return redirect("dashboard:home")


@login_required
def home(request: HttpRequest) -> HttpResponseBase:
    """With one visible space, leads to it; otherwise to the overview."""
    spaces = list(visible_spaces(current_user(request))[:2])
    if len(spaces) == 1:
        return redirect("dashboard:now", team=spaces[0].team.slug, space=spaces[0].slug)
    return overview(request)


@login_required
def team(request: HttpRequest, team: str) -> HttpResponse:
    first = visible_spaces(current_user(request)).filter(team__slug=team).first()
    if first is None:
        raise Http404
    return redirect("dashboard:now", team=team, space=first.slug)


@require_POST
def theme(request: HttpRequest) -> HttpResponse:
    response = redirect(safe_next_url(request, request.POST.get("next")))
    chosen = request.POST.get("theme", "")
    if chosen in THEMES:
        response.set_cookie(THEME_COOKIE, chosen, max_age=YEAR_SECONDS, samesite="Lax")
    return response
