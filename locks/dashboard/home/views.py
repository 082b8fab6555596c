"""The list of spaces, the redirects to one of them, and the choice of a theme."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from locks.dashboard.access import annotate_stuck, current_user, login_required, visible_spaces
from locks.dashboard.rendering import THEME_COOKIE, THEMES, safe_next_url

MAX_SPACES = 500
YEAR_SECONDS = 31_536_000


def root(request: HttpRequest) -> HttpResponse:
    return redirect("dashboard:home")


@login_required
def home(request: HttpRequest) -> HttpResponse:
    """With one visible space, leads to it; with several, lists them."""
    visible = annotate_stuck(visible_spaces(current_user(request))).select_related("team", "usage")
    spaces = list(visible[:MAX_SPACES])
    if len(spaces) == 1:
        return redirect("dashboard:now", team=spaces[0].team.slug, space=spaces[0].slug)
    return render(request, "home/page.html", {"spaces": spaces})


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
