"""The audit history: pages of a space's events or of one lock's, and exports."""

from dataclasses import replace
from datetime import datetime
from typing import Any, cast

import msgspec
from django.http import HttpResponse, HttpResponseBase, StreamingHttpResponse
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.request import Request

from locks.api.base_view import json_response
from locks.api.errors import invalid_input, name_not_allowed
from locks.api.openapi_hooks import NAME, OpenApiTypes, describe, query
from locks.api.parsing import check_name, query_choice, query_number, query_text
from locks.api.views.tokens import TokenEndpoint
from locks.events.history.export import as_csv, as_json_lines
from locks.events.history.filters import Filter, Visibility
from locks.events.history.pages import BadCursor, Cursor, in_utc, page
from locks.events.history.serializers import HistoryEvent, serialize
from locks.models import EventKind, Scope, Token
from locks.services.audit import record

FORMATS = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson"}

_TIME = {"type": "string", "format": "date-time"}
_KIND = f"({'|'.join(EventKind.values)})"
_KINDS = {"type": "string", "pattern": f"^({_KIND}(,{_KIND})*)?$"}
_FILTERS = [
    query("kind", _KINDS, f"Only events of these kinds, joined by commas: {', '.join(EventKind.values)}."),
    query("owner", OpenApiTypes.STR, "Only leases of this owner."),
    query("actor", OpenApiTypes.STR, "Only what this person or token did, by its name at the time."),
    query("token", OpenApiTypes.STR, "Only leases of the token with this public id, and what became of the token."),
    query("request_id", OpenApiTypes.STR, "Only what this request did."),
    query("since", _TIME, "At this time or later."),
    query("until", _TIME, "Before this time."),
]
_NAMES = [
    query("name", OpenApiTypes.STR, "Only this lock."),
    query("prefix", OpenApiTypes.STR, "Only names that start with this."),
]
_PAGING = [
    query("limit", {"type": "integer", "minimum": 1, "maximum": 1000}, "100 unless asked."),
    query("cursor", OpenApiTypes.STR, "The `next_cursor` or `previous_cursor` of another page."),
]


class EventPage(msgspec.Struct, kw_only=True):
    """Newest first. `next_cursor` leads to older events, `previous_cursor` to newer ones; null where there are none
    or, on the first page, none yet."""

    events: list[HistoryEvent]
    next_cursor: str | None
    previous_cursor: str | None


class HistoryEndpoint(TokenEndpoint):
    scope = Scope.AUDIT_READ

    def reach(self, request: Request) -> Visibility:
        token = cast(Token, request.auth)
        return Visibility(space_id=token.space_id, prefixes=tuple(token.prefixes))

    def page(self, request: Request, asked: Filter) -> HttpResponse:
        limit = query_number(request._request, "limit", default=100, minimum=1, maximum=1000)
        text = query_text(request._request, "cursor")
        try:
            cursor = Cursor.decode(text) if text else None
        except BadCursor:
            raise invalid_input(422, "cursor must be a next_cursor or previous_cursor of another page.") from None
        found = page(self.reach(request), asked, limit=limit, cursor=cursor)
        return json_response(
            EventPage(
                events=serialize(found.events),
                next_cursor=found.older.encode() if found.older else None,
                previous_cursor=found.newer.encode() if found.newer else None,
            )
        )


class EventsView(HistoryEndpoint):
    @describe(
        "list_events",
        "What happened in the space",
        tag="History",
        scope="audit:read",
        responses={200: EventPage},
        errors=(422,),
        parameters=[*_NAMES, *_FILTERS, *_PAGING],
    )
    def get(self, request: Request) -> HttpResponse:
        return self.page(request, _filter(request))


class LockHistoryView(HistoryEndpoint):
    @describe(
        "lock_history",
        "What happened to a lock",
        tag="History",
        scope="audit:read",
        responses={200: EventPage},
        errors=(400, 422),
        parameters=[NAME, *_FILTERS, *_PAGING],
    )
    def get(self, request: Request, name: str) -> HttpResponse:
        prefixes = self.reach(request).prefixes
        if prefixes and not check_name(name).startswith(prefixes):
            raise name_not_allowed(name)
        return self.page(request, replace(_filter(request), name=check_name(name), prefix=None))


class ExportView(HistoryEndpoint):
    @extend_schema(
        operation_id="export_events",
        summary="Take the history with you",
        description="Streamed, newest first, with the filters of the list. An export is itself an event.\n\n"
        "Scope: `audit:read`.",
        tags=["History"],
        parameters=[
            query("format", {"type": "string", "enum": list(FORMATS)}, "CSV unless asked."),
            *_NAMES,
            *_FILTERS,
        ],
        responses={
            (200, "text/csv"): OpenApiResponse(OpenApiTypes.STR, description="A header and a line for each event."),
            (200, "application/x-ndjson"): OpenApiResponse(OpenApiTypes.STR, description="A JSON object on each line."),
            **{
                (status, "application/json"): OpenApiResponse(
                    {"$ref": "#/components/schemas/ErrorBody"}, description=description
                )
                for status, description in {
                    401: "No token, or one that is unknown, revoked or expired.",
                    403: "The token lacks the scope.",
                    422: "A parameter has no such value.",
                    429: "Too many requests; see Retry-After.",
                    500: "Our fault; the request id leads to it in the logs.",
                    503: "The database cannot be reached; see Retry-After.",
                }.items()
            },
        },
    )
    def get(self, request: Request) -> HttpResponseBase:
        token = cast(Token, request.auth)
        format_ = query_choice(request._request, "format", tuple(FORMATS))
        asked = _filter(request)
        wanted: dict[str, Any] = msgspec.to_builtins(asked)
        record(
            EventKind.HISTORY_EXPORTED,
            actor=self.actor(request),
            space=token.space,
            detail={"format": format_, **{field: value for field, value in wanted.items() if value}},
        )
        lines = (as_csv if format_ == "csv" else as_json_lines)(self.reach(request), asked)
        return StreamingHttpResponse(
            lines,
            headers={
                "Content-Type": FORMATS[format_],
                "Content-Disposition": f'attachment; filename="{token.space.slug}-events.{format_}"',
                "Cache-Control": "no-store",
            },
        )


def _filter(request: Request) -> Filter:
    asked = request._request
    text = query_text(asked, "kind")
    kinds = tuple(text.split(",")) if text else ()
    if unknown := [kind for kind in kinds if kind not in EventKind.values]:
        raise invalid_input(422, f"kind '{unknown[0]}' is none of: {', '.join(EventKind.values)}.")
    return Filter(
        kinds=kinds,
        name=query_text(asked, "name"),
        prefix=query_text(asked, "prefix"),
        owner=query_text(asked, "owner"),
        actor=query_text(asked, "actor"),
        token=query_text(asked, "token"),
        request_id=query_text(asked, "request_id"),
        since=_time(request, "since"),
        until=_time(request, "until"),
    )


def _time(request: Request, name: str) -> datetime | None:
    text = request._request.GET.get(name)
    if text is None:
        return None
    try:
        time = msgspec.convert(text, datetime)
    except msgspec.ValidationError:
        time = None
    if time is None or time.tzinfo is None:
        raise invalid_input(422, f"{name} must be a time like 2026-01-31T12:00:00Z.")
    return in_utc(time)
