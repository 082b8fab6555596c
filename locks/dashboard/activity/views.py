"""Activity: the history of a space, single events, and the export."""

from dataclasses import asdict

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.views.decorators.http import require_POST, require_safe

from locks.dashboard.access import SpaceContext, space_required
from locks.dashboard.activity.queries import (
    KINDS,
    MAX_NEW,
    ActivityFilters,
    count_new,
    cursor_around,
    find_event,
    token_of,
)
from locks.dashboard.activity.queries import activity as list_events
from locks.dashboard.downloads import download
from locks.dashboard.rendering import is_htmx_target, page, partial
from locks.events.history.export import CONTENT_TYPES, export_history
from locks.events.history.filters import Visibility
from locks.models import Event, EventKind
from locks.pagination import TimeCursor, decode_or_none


@require_safe
@space_required
def activity(request: HttpRequest, space_context: SpaceContext) -> HttpResponse:
    filters = ActivityFilters.of(request.GET).canonical(space_context.space)
    cursor = decode_or_none(request.GET.get("cursor"), TimeCursor)
    around = _event_around(request, space_context) if cursor is None else None
    if around is not None:
        cursor = cursor_around(space=space_context.space, filters=filters, event=around)
    context = {
        "around": around,
        "filters": filters,
        "activity": list_events(space=space_context.space, filters=filters, cursor=cursor),
        "is_first_page": cursor is None,
        "kinds": KINDS,
    }
    if is_htmx_target(request, "live-content"):
        return partial(request, space_context, "activity/event_list.html", context)
    return page(request, space_context, "activity/page.html", context, active_page="activity")


@require_safe
@space_required
def new_count(request: HttpRequest, space_context: SpaceContext) -> HttpResponse:
    """How many events have come since the first page was fetched."""
    filters = ActivityFilters.of(request.GET).canonical(space_context.space)
    number = count_new(
        space=space_context.space, filters=filters, after=decode_or_none(request.GET.get("cursor"), TimeCursor)
    )
    return JsonResponse({"new": number, "or_more": number >= MAX_NEW})


@require_safe
@space_required
def event(request: HttpRequest, space_context: SpaceContext, event_id: int) -> HttpResponse:
    result = find_event(space=space_context.space, event_id=event_id)
    if result is None:
        raise Http404
    context = {"event": result, "token": token_of(result)}
    return page(request, space_context, "activity/event.html", context, active_page="activity")


def _event_around(request: HttpRequest, space_context: SpaceContext) -> Event | None:
    text = request.GET.get("around", "")
    is_id = text.isascii() and text.isdigit() and len(text) < 19
    return find_event(space=space_context.space, event_id=int(text)) if is_id else None


@require_POST
@space_required
def export(request: HttpRequest, space_context: SpaceContext) -> HttpResponseBase:
    """Streamed, with the filters of the page. A POST, since it is recorded: no link or prefetch must trigger it."""
    format_ = request.POST.get("format", "")
    if format_ not in CONTENT_TYPES:
        raise Http404
    filters = ActivityFilters.of(request.GET).canonical(space_context.space)
    event_filter = filters.event_filter(space_context.space)
    visibility = Visibility(space_id=space_context.space.pk)
    return download(
        request, space_context, kind=EventKind.HISTORY_EXPORTED, page="activity", filename=f"events.{format_}",
        start=lambda actor: export_history(
            visibility, event_filter, format_=format_, team_id=space_context.team.pk, actor=actor
        ),
        detail={"format": format_, **{field: value for field, value in asdict(event_filter).items() if value}},
    )  # fmt: skip
