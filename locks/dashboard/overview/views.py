"""Overview: all spaces that a user may see, with what needs attention in each."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from locks.dashboard.access import current_user, login_required
from locks.dashboard.overview import queries
from locks.dashboard.rendering import is_htmx_target


@require_safe
@login_required
def overview(request: HttpRequest) -> HttpResponse:
    is_refresh = is_htmx_target(request, "live-content")
    template = "overview/spaces.html" if is_refresh else "overview/page.html"
    return render(request, template, {"overview": queries.overview(current_user(request))})
