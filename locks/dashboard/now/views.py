"""Now: who owns what."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from locks.dashboard.access import SpaceContext, space_required
from locks.dashboard.now.counters import counters, grants_per_minute
from locks.dashboard.now.queries import GROUPS, SORTS, LockListFilter, lock_list
from locks.dashboard.rendering import is_htmx_target, page, partial


@require_safe
@space_required
def now(request: HttpRequest, place: SpaceContext) -> HttpResponse:
    wanted = LockListFilter.of(request.GET)
    found = lock_list(space=place.space, wanted=wanted)
    counted = counters(space=place.space)
    context = {
        "wanted": wanted,
        "board": found,
        "counters": counted,
        "pulse": grants_per_minute(space=place.space),
        "sorts": SORTS,
        "groups": GROUPS,
        # To release all that the filter finds, and not only what is ticked.
        "filter_fields": [("q", wanted.q), ("prefix", wanted.prefix), ("owner", wanted.owner)],
        "all_number": counted.held if found.found is None else found.found,
        "all_words": "that match" if wanted.narrows else "that are held",
    }
    if is_htmx_target(request, "live-content"):
        return partial(request, place, "now/lock_list.html", context)
    return page(request, place, "now/page.html", context, active_page="now")
