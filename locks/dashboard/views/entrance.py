"""The way in and out: sign-in, sign-out, the choice of a space and of a theme."""

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from locks.dashboard.access import actor, person, request_id, signed_in, visible_spaces, with_stuck
from locks.dashboard.entering.beginning import begin, ways_in
from locks.dashboard.shell import THEME_COOKIE, THEMES, own_address, slowed
from locks.services import sign_in as people
from locks.services.login_throttle import TooMany

YEAR_SECONDS = 31_536_000


def root(request: HttpRequest) -> HttpResponse:
    return redirect("dashboard:home")


@signed_in
def home(request: HttpRequest) -> HttpResponse:
    """Straight to the space of those who have one; the others choose."""
    visible = with_stuck(visible_spaces(person(request))).select_related("team", "usage")
    spaces = list(visible[:500])
    if len(spaces) == 1:
        return redirect("dashboard:now", team=spaces[0].team.slug, space=spaces[0].slug)
    return render(request, "home/page.html", {"spaces": spaces, "here": "home"})


@signed_in
def team(request: HttpRequest, team: str) -> HttpResponse:
    first = visible_spaces(person(request)).filter(team__slug=team).first()
    if first is None:
        raise Http404
    return redirect("dashboard:now", team=team, space=first.slug)


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in(request: HttpRequest) -> HttpResponse:
    back = own_address(request, request.POST.get("next") or request.GET.get("next"))
    if request.method != "POST":
        if request.user.is_authenticated:
            return redirect(back)
        return render(request, "sign_in/page.html", {**ways_in(), "next": back})
    name = request.POST.get("name", "").strip()
    password = request.POST.get("password", "")
    context: dict[str, Any] = {**ways_in(), "next": back, "name": name}
    # A null character is in nobody's name, and Postgres would not take it.
    if not (name and password) or "\0" in name:
        return render(request, "sign_in/page.html", {**context, "failed": True}, status=422)
    try:
        user = people.check(request=request, name=name, password=password, request_id=request_id(request))
    except TooMany as refused:
        return slowed(request, refused, "sign_in/page.html", context)
    if user is None:
        return render(request, "sign_in/page.html", {**context, "failed": True}, status=422)
    return begin(request, user, method="password", back=back)


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    if request.user.is_authenticated:
        people.sign_out(request=request, actor=actor(request))
    return redirect("dashboard:sign-in")


@require_POST
def theme(request: HttpRequest) -> HttpResponse:
    response = redirect(own_address(request, request.POST.get("next")))
    wanted = request.POST.get("theme", "")
    if wanted in THEMES:
        response.set_cookie(THEME_COOKIE, wanted, max_age=YEAR_SECONDS, samesite="Lax")
    return response
