"""Contention: the names in demand, and how long claims wait for them."""

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from locks.dashboard.access import SpaceContext, space_required
from locks.dashboard.contention.queries import PERCENTILES, WINDOWS
from locks.dashboard.contention.queries import contention as measure_contention
from locks.dashboard.rendering import is_htmx_target, page, partial


@require_safe
@space_required
def contention(request: HttpRequest, space_context: SpaceContext) -> HttpResponse:
    span = request.GET.get("span", "24h")
    if span not in WINDOWS:
        span = "24h"
    context = {
        "contention": measure_contention(space=space_context.space, window=WINDOWS[span]),
        "span": span,
        "spans": list(WINDOWS),
        "percentiles": PERCENTILES,
        "now": timezone.now(),
    }
    if is_htmx_target(request, "live-content"):
        return partial(request, space_context, "contention/charts.html", context)
    return page(request, space_context, "contention/page.html", context, active_page="contention")
