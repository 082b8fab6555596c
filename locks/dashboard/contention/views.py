"""Contention: the names in demand, and how long claims wait for them."""

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from locks.dashboard.access import SpaceContext, space_required
from locks.dashboard.contention.queries import PERCENTILES, WINDOWS, contended_names
from locks.dashboard.contention.queries import contention as measure_contention
from locks.dashboard.downloads import download_list
from locks.dashboard.rendering import is_htmx_target, page, partial

MAX_EXPORTED = 10_000
EXPORTED = ("name", "refused", "waited", "waited_ms", "owner", "queue_length")


@require_POST
@space_required
def export(request: HttpRequest, space_context: SpaceContext) -> HttpResponseBase:
    """The names in demand as CSV."""
    span = _span(request)
    names = contended_names(space=space_context.space, window=WINDOWS[span], limit=MAX_EXPORTED)
    rows = ([getattr(name, field) for field in EXPORTED] for name in sorted(names, key=lambda name: -name.refused))
    return download_list(
        request, space_context, page="contention", columns=EXPORTED, batches=[rows], detail={"span": span}
    )


def _span(request: HttpRequest) -> str:
    span = request.GET.get("span", "")
    return span if span in WINDOWS else "24h"


@require_safe
@space_required
def contention(request: HttpRequest, space_context: SpaceContext) -> HttpResponse:
    span = _span(request)
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
