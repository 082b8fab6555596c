"""Wait graph: chains and cycles of owners that wait for each other."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from locks.dashboard.access import SpaceContext, space_required
from locks.dashboard.rendering import is_htmx_target, page, partial
from locks.dashboard.waits.queries import wait_graph


@require_safe
@space_required
def waits(request: HttpRequest, space_context: SpaceContext) -> HttpResponse:
    context = {"graph": wait_graph(space=space_context.space)}
    if is_htmx_target(request, "live-content"):
        return partial(request, space_context, "waits/chains.html", context)
    return page(request, space_context, "waits/page.html", context, active_page="contention")
