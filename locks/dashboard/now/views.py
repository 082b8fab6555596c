"""Now: the active locks of a space."""

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.views.decorators.http import require_POST, require_safe

from locks.dashboard.access import SpaceContext, space_required
from locks.dashboard.downloads import download_list
from locks.dashboard.now.columns import headings
from locks.dashboard.now.queries import (
    EXACT_UP_TO,
    GROUPS,
    ROWS,
    SORTS,
    STATES,
    LockListFilters,
    counters,
    export_locks,
    grants_per_minute,
    lock_list,
)
from locks.dashboard.page_number import page_numbers
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
    detail = {"q": filters.q, "prefix": filters.prefix, "owner": filters.owner, "state": filters.state}
    return download_list(request, space_context, page="now", columns=EXPORTED, batches=rows, detail=detail)


@require_safe
@space_required
def now(request: HttpRequest, space_context: SpaceContext) -> HttpResponse:
    space = space_context.space
    filters = LockListFilters.of(request.GET).canonical(space)
    listed = lock_list(space=space, filters=filters)
    counted = counters(spaces=[space])[space.pk]
    rows = counted.active if listed.total is None else listed.total
    is_exact = rows <= EXACT_UP_TO or listed.total is None
    context = {
        "filters": filters,
        "lock_list": listed,
        "counters": counted,
        "grant_rate": grants_per_minute(space=space),
        "sorts": SORTS,
        "groups": GROUPS,
        "states": STATES,
        "headings": headings(sort=filters.sort),
        # Unknown while groups are collapsed: each counts as one row.
        "numbers": page_numbers(page=filters.page, total=rows, rows=ROWS) if is_exact and not filters.closed else [],
        # For the button that releases all locks of the filter rather than the selected ones.
        "filter_fields": [
            ("q", filters.q),
            ("prefix", filters.prefix),
            ("owner", filters.owner),
            ("state", filters.state),
        ],
        "total": counted.held if listed.total is None else listed.total,
        "total_label": "matching" if filters.is_filtered else "held",
    }
    if is_htmx_target(request, "live-content"):
        return partial(request, space_context, "now/lock_list.html", context)
    return page(request, space_context, "now/page.html", context, active_page="now")
