"""Owners: who is at work, and everything they hold."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from locks.dashboard.access import Place, in_space
from locks.dashboard.owners import LOCKS_SHOWN, SORTS, OwnersFilter
from locks.dashboard.owners import owners as find_owners
from locks.dashboard.shell import asks_for, page, part


@require_safe
@in_space
def owners(request: HttpRequest, place: Place) -> HttpResponse:
    wanted = OwnersFilter.of(request.GET)
    found = find_owners(space=place.space, wanted=wanted)
    context = {"wanted": wanted, "owners": found, "sorts": SORTS, "locks_shown": LOCKS_SHOWN}
    if asks_for(request, "board"):
        return part(request, place, "owners/board.html", context)
    return page(request, place, "owners/page.html", context, here="owners")
