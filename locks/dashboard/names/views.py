"""Names: every lock of a space, free ones included, as a tree."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from locks.dashboard.access import SpaceContext, space_required
from locks.dashboard.names.queries import NamesFilters, tree
from locks.dashboard.rendering import is_htmx_target, page, partial


@require_safe
@space_required
def names(request: HttpRequest, space_context: SpaceContext) -> HttpResponse:
    space = space_context.space
    filters = NamesFilters.of(request.GET).canonical(space)
    context = {"filters": filters, "tree": tree(space=space, filters=filters)}
    if is_htmx_target(request, "live-content"):
        return partial(request, space_context, "names/tree.html", context)
    return page(request, space_context, "names/page.html", context, active_page="names")
