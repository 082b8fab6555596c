"""Activity: what happened, newest first, each event by itself, and all of it to take along."""

from typing import Any

import msgspec
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, JsonResponse, StreamingHttpResponse
from django.views.decorators.http import require_POST, require_safe

from locks.dashboard.access import SpaceContext, actor, space_required
from locks.dashboard.activity.queries import (
    KINDS,
    MAX_NEWS,
    ActivityFilter,
    cursor_of,
    find_event,
    number_of_news,
    token_of,
)
from locks.dashboard.activity.queries import activity as find_events
from locks.dashboard.rendering import is_htmx_target, page, partial
from locks.events.history.export import as_csv, as_json_lines
from locks.events.history.filters import Visibility
from locks.models import EventKind
from locks.services.audit import record

FORMATS = {"csv": (as_csv, "text/csv; charset=utf-8"), "jsonl": (as_json_lines, "application/x-ndjson")}


@require_safe
@space_required
def activity(request: HttpRequest, place: SpaceContext) -> HttpResponse:
    wanted = ActivityFilter.of(request.GET)
    cursor = cursor_of(request.GET)
    context = {
        "wanted": wanted,
        "found": find_events(space=place.space, wanted=wanted, cursor=cursor),
        "is_earlier": cursor is not None,
        "export_query": wanted.query(),
        "kinds": KINDS,
    }
    if is_htmx_target(request, "live-content"):
        return partial(request, place, "activity/events.html", context)
    return page(request, place, "activity/page.html", context, active_page="activity")


@require_safe
@space_required
def news(request: HttpRequest, place: SpaceContext) -> HttpResponse:
    """How many events a page that shows the newest does not show yet."""
    wanted = ActivityFilter.of(request.GET)
    number = number_of_news(space=place.space, wanted=wanted, seen=cursor_of(request.GET))
    return JsonResponse({"new": number, "or_more": number >= MAX_NEWS})


@require_safe
@space_required
def event(request: HttpRequest, place: SpaceContext, event_id: int) -> HttpResponse:
    found = find_event(space=place.space, event_id=event_id)
    if found is None:
        raise Http404
    return page(
        request, place, "activity/event.html", {"event": found, "token": token_of(found)}, active_page="activity"
    )


@require_POST
@space_required
def export(request: HttpRequest, place: SpaceContext) -> HttpResponseBase:
    """Streamed, with the filters of the page. Posted, so that no link and no prefetch makes one: it is an event."""
    format_ = request.POST.get("format", "")
    if format_ not in FORMATS:
        raise Http404
    write, content_type = FORMATS[format_]
    asked = ActivityFilter.of(request.GET).asked
    narrowed: dict[str, Any] = msgspec.to_builtins(asked)
    record(
        EventKind.HISTORY_EXPORTED,
        actor=actor(request),
        space=place.space,
        detail={"format": format_, **{field: value for field, value in narrowed.items() if value}},
    )
    return StreamingHttpResponse(
        write(Visibility(space_id=place.space.pk), asked),
        headers={
            "Content-Type": content_type,
            "Content-Disposition": f'attachment; filename="{place.team.slug}-{place.space.slug}-events.{format_}"',
        },
    )
