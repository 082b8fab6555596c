"""Lock: the state and the history of one lock."""

from django.http import Http404, HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from locks.dashboard.access import SpaceContext, current_user, space_required
from locks.dashboard.lock.hold_times import hold_times
from locks.dashboard.lock.ownership_timeline import MAX_HOLDS, SPANS, ownership_timeline
from locks.dashboard.lock.queries import HOLDS, ended_holds, find_lock, has_history, overlaps, percentiles
from locks.dashboard.origins import origins_of
from locks.dashboard.rendering import freezes_shown, is_htmx_target, page, partial
from locks.dashboard.stuck.queries import describe_reasons
from locks.dashboard.waiters import waiters_of
from locks.engine.names import canonical_filter
from locks.pagination import TimeCursor, decode_or_none
from locks.runs.queries import run_of_lock
from locks.services.notes import find_notes
from locks.services.reservations import is_reserved_by
from locks.services.stuck import find_stuck


@require_safe
@space_required
def lock(request: HttpRequest, space_context: SpaceContext, name: str) -> HttpResponse:
    space = space_context.space
    name = canonical_filter(name, lambda: space.namespaces, is_prefix=False)
    row = find_lock(space=space, name=name)
    if row is None and not has_history(space=space, name=name):
        raise Http404
    overlapping = overlaps(space=space, name=name)
    span = request.GET.get("span", "24h")
    if span not in SPANS:
        span = "24h"
    # Without a row the database's clock was not read; for the timeline the server's is exact enough.
    now = row.now if row else timezone.now()
    recent = ended_holds(space=space, name=name, since=now - SPANS[span], limit=MAX_HOLDS)
    cursor = decode_or_none(request.GET.get("before"), TimeCursor)
    listed = ended_holds(space=space, name=name, cursor=cursor, limit=HOLDS + 1)
    origin = origins_of(space=space, lock_ids=[row.id]).get(row.id) if row and row.owner else None
    stuck = find_stuck(space=space, lock_ids=[row.id]).get(row.id) if row and row.owner else None
    context = {
        "name": name,
        "run": run_of_lock(space=space, name=name),
        "lock": row,
        "stuck": stuck,
        "origin": origin,
        "note": find_notes(space=space, names=[name]).get(name),
        "reasons": describe_reasons(stuck) if stuck else [],
        "now": now,
        "max_hold_ends_at": row.max_hold_ends_at(space) if row else None,
        "is_own_reservation": row is not None
        and row.is_live
        and row.is_reserved
        and is_reserved_by(current_user(request), space=space, name=name),
        "freeze": next((freeze for freeze in freezes_shown(space_context) if name.startswith(freeze.prefix)), None),
        "waiters": waiters_of(space=space, names=[name])[name] if row and row.waiters else [],
        "blocked_by": [overlap for overlap in overlapping if overlap.kind == "lease"],
        "blocks": [overlap for overlap in overlapping if overlap.kind == "waiter"] if row and row.is_live else [],
        "timeline": ownership_timeline(ended=recent, current=row, now=now, span=span),
        "span": span,
        "spans": list(SPANS),
        "percentiles": percentiles(recent),
        "hold_times": hold_times(ended=recent, now=now, span=span),
        "holds": listed[:HOLDS],
        "older": listed[HOLDS - 1].cursor if len(listed) > HOLDS else None,
    }
    if is_htmx_target(request, "live-content"):
        return partial(request, space_context, "lock/lock_detail.html", context)
    return page(request, space_context, "lock/page.html", context, active_page="lock")
