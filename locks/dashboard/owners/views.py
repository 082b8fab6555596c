"""Owners: the workers of a space, and everything they hold."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from locks.dashboard.access import SpaceContext, space_required
from locks.dashboard.owners.queries import LOCKS_SHOWN, ROWS, SORTS, OwnersFilters
from locks.dashboard.owners.queries import owners as list_owners
from locks.dashboard.page_number import page_numbers
from locks.dashboard.rendering import is_htmx_target, page, partial


@require_safe
@space_required
def owners(request: HttpRequest, space_context: SpaceContext) -> HttpResponse:
    filters = OwnersFilters.of(request.GET)
    listed = list_owners(space=space_context.space, filters=filters)
    context = {
        "filters": filters,
        "owners": listed,
        "numbers": page_numbers(page=filters.page, total=listed.total, rows=ROWS),
        "sorts": SORTS,
        "locks_shown": LOCKS_SHOWN,
    }
    if is_htmx_target(request, "live-content"):
        return partial(request, space_context, "owners/owner_list.html", context)
    return page(request, space_context, "owners/page.html", context, active_page="owners")
