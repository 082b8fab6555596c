"""Contention: which names are in demand, and how long one waits for them."""

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from locks.dashboard.access import SpaceContext, space_required
from locks.dashboard.contention.queries import SHARES, WINDOWS
from locks.dashboard.contention.queries import contention as look_at_contention
from locks.dashboard.rendering import is_htmx_target, page, partial


@require_safe
@space_required
def contention(request: HttpRequest, place: SpaceContext) -> HttpResponse:
    span = request.GET.get("span", "24h")
    if span not in WINDOWS:
        span = "24h"
    context = {
        "found": look_at_contention(space=place.space, window=WINDOWS[span]),
        "span": span,
        "spans": list(WINDOWS),
        "shares": [f"{share:.0%}" for share in SHARES],
        "now": timezone.now(),
    }
    if is_htmx_target(request, "live-content"):
        return partial(request, place, "contention/board.html", context)
    return page(request, place, "contention/page.html", context, active_page="contention")
