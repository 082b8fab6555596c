"""Owners: who is at work, and everything they hold."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from locks.dashboard.access import SpaceContext, space_required
from locks.dashboard.owners.queries import LOCKS_SHOWN, SORTS, OwnersFilter
from locks.dashboard.owners.queries import owners as find_owners
from locks.dashboard.rendering import is_htmx_target, page, partial


@require_safe
@space_required
def owners(request: HttpRequest, place: SpaceContext) -> HttpResponse:
    wanted = OwnersFilter.of(request.GET)
    found = find_owners(space=place.space, wanted=wanted)
    context = {"wanted": wanted, "owners": found, "sorts": SORTS, "locks_shown": LOCKS_SHOWN}
    if is_htmx_target(request, "live-content"):
        return partial(request, place, "owners/board.html", context)
    return page(request, place, "owners/page.html", context, active_page="owners")
