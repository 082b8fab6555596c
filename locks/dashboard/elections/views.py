"""Elections: every room that has a leader, for superusers."""

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from locks.dashboard.access import current_user, login_required
from locks.dashboard.elections.queries import ROWS, rooms
from locks.services import elections
from locks.services.mfa import is_mfa_required


@require_safe
@login_required
def list_rooms(request: HttpRequest) -> HttpResponse:
    user = current_user(request)
    if not user.is_superuser or is_mfa_required(user):
        raise PermissionDenied
    space = elections.rooms()
    found = rooms(space) if space else []
    context = {
        "rooms": found[:ROWS],
        "has_more": len(found) > ROWS,
        "space": space,
        "is_on": settings.PUBLIC_ELECTIONS,
        "now": found[0].now if found else None,
    }
    return render(request, "elections/page.html", context)
