"""Now: the active locks of a space."""

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.views.decorators.http import require_POST, require_safe

from locks.dashboard.access import SpaceContext, space_required
from locks.dashboard.downloads import download_list
from locks.dashboard.now.queries import (
    GROUPS,
    SORTS,
    LockListFilters,
    counters,
    export_locks,
    grants_per_minute,
    lock_list,
)
from locks.dashboard.rendering import is_htmx_target, page, partial

EXPORTED = (
    "name", "state", "owner", "metadata", "acquired_at", "last_heartbeat_at", "effective_expires_at", "available_at",
    "effective_ttl", "renewals", "waiters", "fencing_token",
)  # fmt: skip


@require_POST
@space_required
def export(request: HttpRequest, space_context: SpaceContext) -> HttpResponseBase:
    """The locks of the filter as CSV."""
    filters = LockListFilters.of(request.GET).canonical(space_context.space)
    batches = export_locks(space=space_context.space, filters=filters)
    rows = (([getattr(lock, name) for name in EXPORTED] for lock in locks) for locks in batches)
    detail = {"q": filters.q, "prefix": filters.prefix, "owner": filters.owner}
    return download_list(request, space_context, page="now", columns=EXPORTED, batches=rows, detail=detail)


@require_safe
@space_required
def now(request: HttpRequest, space_context: SpaceContext) -> HttpResponse:
    space = space_context.space
    filters = LockListFilters.of(request.GET).canonical(space)
    listed = lock_list(space=space, filters=filters)
    counted = counters(spaces=[space])[space.pk]
    context = {
        "filters": filters,
        "lock_list": listed,
        "counters": counted,
        "grant_rate": grants_per_minute(space=space),
        "sorts": SORTS,
        "groups": GROUPS,
        # For the button that releases all locks of the filter rather than the selected ones.
        "filter_fields": [("q", filters.q), ("prefix", filters.prefix), ("owner", filters.owner)],
        "total": counted.held if listed.total is None else listed.total,
        "total_label": "matching" if filters.is_filtered else "held",
    }
    if is_htmx_target(request, "live-content"):
        return partial(request, space_context, "now/lock_list.html", context)
    return page(request, space_context, "now/page.html", context, active_page="now")
