"""Now: who owns what."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from locks.dashboard.access import Place, in_space
from locks.dashboard.board import SORTS, BoardFilter, board
from locks.dashboard.counters import counters, pulse
from locks.dashboard.shell import asks_for, page, part


@require_safe
@in_space
def now(request: HttpRequest, place: Place) -> HttpResponse:
    wanted = BoardFilter.of(request.GET)
    context = {
        "wanted": wanted,
        "board": board(space=place.space, wanted=wanted),
        "counters": counters(space=place.space),
        "pulse": pulse(space=place.space),
        "sorts": SORTS,
    }
    if asks_for(request, "board"):
        return part(request, place, "now/board.html", context)
    return page(request, place, "now/page.html", context, here="now")
