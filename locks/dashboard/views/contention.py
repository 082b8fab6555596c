"""Contention: which names are in demand, and how long one waits for them."""

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from locks.dashboard.access import Place, in_space
from locks.dashboard.contention import SHARES, WINDOWS
from locks.dashboard.contention import contention as look_at_contention
from locks.dashboard.shell import asks_for, page, part


@require_safe
@in_space
def contention(request: HttpRequest, place: Place) -> HttpResponse:
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
    if asks_for(request, "board"):
        return part(request, place, "contention/board.html", context)
    return page(request, place, "contention/page.html", context, here="contention")
