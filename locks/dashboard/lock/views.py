"""Lock: one name, how it stands and what became of it before."""

from django.http import Http404, HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from locks.dashboard.access import SpaceContext, space_required
from locks.dashboard.activity.queries import position
from locks.dashboard.lock.ownership_timeline import MAX_HOLDS, SPANS, ownership_timeline
from locks.dashboard.lock.queries import HOLDS, find_lock, has_history, holds, next_step_text, percentiles, waiters
from locks.dashboard.lock_row import longest_hold_ends_at
from locks.dashboard.rendering import is_htmx_target, page, partial


@require_safe
@space_required
def lock(request: HttpRequest, place: SpaceContext, name: str) -> HttpResponse:
    space = place.space
    found = find_lock(space=space, name=name)
    if found is None and not has_history(space=space, name=name):
        raise Http404
    span = request.GET.get("span", "24h")
    if span not in SPANS:
        span = "24h"
    # Without a row there is no clock of the database at hand; the picture is not that exact.
    now = found.now if found else timezone.now()
    recent = holds(space=space, name=name, since=now - SPANS[span], limit=MAX_HOLDS)
    listed = holds(space=space, name=name, before=position(request.GET.get("before", "")), limit=HOLDS + 1)
    context = {
        "name": name,
        "lock": found,
        "now": now,
        "next": next_step_text(found) if found else "Nobody holds it; the next claim takes it.",
        "longest_hold_ends_at": longest_hold_ends_at(found, space) if found else None,
        "waiters": waiters(space=space, name=name, now=now) if found and found.waiters else [],
        "ribbon": ownership_timeline(ended=recent, current=found, now=now, span=span),
        "span": span,
        "spans": list(SPANS),
        "percentiles": percentiles(recent),
        "holds": listed[:HOLDS],
        "older": listed[HOLDS - 1].position if len(listed) > HOLDS else None,
    }
    if is_htmx_target(request, "live-content"):
        return partial(request, place, "lock/story.html", context)
    return page(request, place, "lock/page.html", context, active_page="lock")
