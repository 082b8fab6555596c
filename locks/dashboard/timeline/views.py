"""Timeline: the holds of many locks side by side."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from locks.dashboard.access import SpaceContext, space_required
from locks.dashboard.rendering import is_htmx_target, page, partial
from locks.dashboard.timeline.queries import SPANS, TimelineFilters
from locks.dashboard.timeline.queries import timeline as build_timeline
from locks.services import clock


@require_safe
@space_required
def timeline(request: HttpRequest, space_context: SpaceContext) -> HttpResponse:
    space = space_context.space
    filters = TimelineFilters.of(request.GET).canonical(space)
    now = clock.now()
    context = {
        "filters": filters,
        "timeline": build_timeline(space=space, filters=filters, now=now),
        "span": "" if filters.has_range else filters.span,
        "spans": list(SPANS),
        "now": now,
    }
    if is_htmx_target(request, "live-content"):
        return partial(request, space_context, "timeline/lanes.html", context)
    return page(request, space_context, "timeline/page.html", context, active_page="activity")
