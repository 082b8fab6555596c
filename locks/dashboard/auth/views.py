"""The way in and out: sign-in, sign-out, the choice of a space and of a theme."""

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from locks.dashboard.access import actor, annotate_stuck, current_user, login_required, request_id, visible_spaces
from locks.dashboard.auth.login_start import begin, login_methods
from locks.dashboard.rendering import THEME_COOKIE, THEMES, safe_next_url, throttled
from locks.services import sign_in as people
from locks.services.login_throttle import TooMany

YEAR_SECONDS = 31_536_000


def root(request: HttpRequest) -> HttpResponse:
    return redirect("dashboard:home")


@login_required
def home(request: HttpRequest) -> HttpResponse:
    """Straight to the space of those who have one; the others choose."""
    visible = annotate_stuck(visible_spaces(current_user(request))).select_related("team", "usage")
    spaces = list(visible[:500])
    if len(spaces) == 1:
        return redirect("dashboard:now", team=spaces[0].team.slug, space=spaces[0].slug)
    return render(request, "home/page.html", {"spaces": spaces, "here": "home"})


@login_required
def team(request: HttpRequest, team: str) -> HttpResponse:
    first = visible_spaces(current_user(request)).filter(team__slug=team).first()
    if first is None:
        raise Http404
    return redirect("dashboard:now", team=team, space=first.slug)


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in(request: HttpRequest) -> HttpResponse:
    back = safe_next_url(request, request.POST.get("next") or request.GET.get("next"))
    if request.method != "POST":
        if request.user.is_authenticated:
            return redirect(back)
        return render(request, "auth/page.html", {**login_methods(), "next": back})
    name = request.POST.get("name", "").strip()
    password = request.POST.get("password", "")
    context: dict[str, Any] = {**login_methods(), "next": back, "name": name}
    # A null character is in nobody's name, and Postgres would not take it.
    if not (name and password) or "\0" in name:
        return render(request, "auth/page.html", {**context, "failed": True}, status=422)
    try:
        user = people.check(request=request, name=name, password=password, request_id=request_id(request))
    except TooMany as refused:
        return throttled(request, refused, "auth/page.html", context)
    if user is None:
        return render(request, "auth/page.html", {**context, "failed": True}, status=422)
    return begin(request, user, method="password", back=back)


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    if request.user.is_authenticated:
        people.sign_out(request=request, actor=actor(request))
    return redirect("dashboard:sign-in")


@require_POST
def theme(request: HttpRequest) -> HttpResponse:
    response = redirect(safe_next_url(request, request.POST.get("next")))
    wanted = request.POST.get("theme", "")
    if wanted in THEMES:
        response.set_cookie(THEME_COOKIE, wanted, max_age=YEAR_SECONDS, samesite="Lax")
    return response
