"""Now: who owns what."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from locks.dashboard.access import Place, in_space
from locks.dashboard.board import GROUPS, SORTS, BoardFilter, board
from locks.dashboard.counters import counters, pulse
from locks.dashboard.shell import asks_for, page, part


@require_safe
@in_space
def now(request: HttpRequest, place: Place) -> HttpResponse:
    wanted = BoardFilter.of(request.GET)
    found = board(space=place.space, wanted=wanted)
    counted = counters(space=place.space)
    context = {
        "wanted": wanted,
        "board": found,
        "counters": counted,
        "pulse": pulse(space=place.space),
        "sorts": SORTS,
        "groups": GROUPS,
        # To release all that the filter finds, and not only what is ticked.
        "filter_fields": [("q", wanted.q), ("prefix", wanted.prefix), ("owner", wanted.owner)],
        "all_number": counted.held if found.found is None else found.found,
        "all_words": "that match" if wanted.narrows else "that are held",
    }
    if asks_for(request, "board"):
        return part(request, place, "now/board.html", context)
    return page(request, place, "now/page.html", context, here="now")
