"""Activity: what happened, newest first, and each event by itself."""

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from locks.dashboard.access import Place, in_space
from locks.dashboard.activity import KINDS, ActivityFilter, find_event
from locks.dashboard.activity import activity as find_events
from locks.dashboard.shell import asks_for, page, part


@require_safe
@in_space
def activity(request: HttpRequest, place: Place) -> HttpResponse:
    wanted = ActivityFilter.of(request.GET)
    context = {"wanted": wanted, "found": find_events(space=place.space, wanted=wanted), "kinds": KINDS}
    if asks_for(request, "board"):
        return part(request, place, "activity/events.html", context)
    return page(request, place, "activity/page.html", context, here="activity")


@require_safe
@in_space
def event(request: HttpRequest, place: Place, event_id: int) -> HttpResponse:
    found = find_event(space=place.space, event_id=event_id)
    if found is None:
        raise Http404
    return page(request, place, "activity/event.html", {"event": found}, here="activity")
