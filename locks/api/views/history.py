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
from locks.api.limits import limits
from locks.api.openapi_hooks import NAME, OpenApiTypes, describe, query
from locks.api.parsing import name_in_path, query_choice, query_cursor, query_number, query_text
from locks.api.run_names import show_lock_names, stored_name, visible_run_names
from locks.api.views.tokens import TokenEndpoint
from locks.engine.names import canonical_filter
from locks.events.history.export import CONTENT_TYPES, export_history
from locks.events.history.filters import Filter, Visibility
from locks.events.history.pages import page
from locks.events.history.serializers import HistoryEvent, serialize
from locks.models import EventKind, Scope, Token
from locks.pagination import TimeCursor, to_utc
from locks.services.audit import record

_TIME = {"type": "string", "format": "date-time"}
_KIND = f"({'|'.join(EventKind.values)})"
_KINDS = {"type": "string", "pattern": f"^({_KIND}(,{_KIND})*)?$"}
_FILTERS = [
    query("kind", _KINDS, f"Only events of these kinds, joined by commas: {', '.join(EventKind.values)}."),
    query("owner", OpenApiTypes.STR, "Only leases of this owner."),
    query("actor", OpenApiTypes.STR, "Only acts of this person or token, by its name at the time."),
    query(
        "token",
        OpenApiTypes.STR,
        "Only leases of the token with this public id, and its own issue, rotation and revocation.",
    ),
    query("request_id", OpenApiTypes.STR, "Only events of this request."),
    query("since", _TIME, "At this time or later."),
    query("until", _TIME, "Before this time."),
]
_NAMES = [
    query("name", OpenApiTypes.STR, "Only this lock."),
    query("prefix", OpenApiTypes.STR, "Only names that start with this."),
]
_PAGING = [
    query("limit", {"type": "integer", "minimum": 1, "maximum": 1000}, "Default: 100."),
    query("cursor", OpenApiTypes.STR, "The `next_cursor` or `previous_cursor` of another page."),
]


class EventPage(msgspec.Struct, kw_only=True):
    """Newest first. `next_cursor` leads to older events, `previous_cursor` to newer ones; null where there are none,
    and on the first page."""

    events: list[HistoryEvent]
    next_cursor: str | None
    previous_cursor: str | None


class HistoryEndpoint(TokenEndpoint):
    scope = Scope.AUDIT_READ

    def visibility(self, request: Request) -> Visibility:
        token = cast(Token, request.auth)
        return Visibility(
            space_id=token.space_id,
            prefixes=tuple(token.prefixes),
            run_prefixes=visible_run_names(bytes(token.digest)),
        )

    def filter(self, request: Request) -> Filter:
        filters, rules = _filter(request), self.rules(request)
        return replace(
            filters,
            name=filters.name and canonical_filter(filters.name, rules, is_prefix=False),
            prefix=filters.prefix and canonical_filter(filters.prefix, rules, is_prefix=True),
        )

    def page(self, request: Request, filters: Filter) -> HttpResponse:
        limit = query_number(request._request, "limit", default=100, minimum=1, maximum=1000)
        cursor = query_cursor(request._request, TimeCursor)
        found = page(self.visibility(request), filters, limit=limit, cursor=cursor)
        digest = bytes(cast(Token, request.auth).digest)
        limits.charge_rows(digest, len(found.rows))
        events = serialize(found.rows)
        show_lock_names(events, digest)
        return json_response(EventPage(events=events, next_cursor=found.older, previous_cursor=found.newer))


class EventsView(HistoryEndpoint):
    @describe(
        "list_events",
        "Events of the space",
        tag="History",
        scope="audit:read",
        responses={200: EventPage},
        errors=(422,),
        parameters=[*_NAMES, *_FILTERS, *_PAGING],
    )
    def get(self, request: Request) -> HttpResponse:
        return self.page(request, self.filter(request))


class LockHistoryView(HistoryEndpoint):
    @describe(
        "lock_history",
        "Events of a lock",
        tag="History",
        scope="audit:read",
        responses={200: EventPage},
        errors=(400, 422),
        parameters=[NAME, *_FILTERS, *_PAGING],
    )
    def get(self, request: Request, name: str) -> HttpResponse:
        prefixes = self.visibility(request).prefixes
        digest = bytes(cast(Token, request.auth).digest)
        name = stored_name(name_in_path(name, self.rules(request)), digest)
        if prefixes and not name.startswith(prefixes):
            raise name_not_allowed(name)
        return self.page(request, replace(self.filter(request), name=name, prefix=None))


class ExportView(HistoryEndpoint):
    @extend_schema(
        operation_id="export_events",
        summary="Export the history",
        description="Streamed, newest first, with the filters of the list. An export is itself an event.\n\n"
        "Scope: `audit:read`.",
        tags=["History"],
        parameters=[
            query("format", {"type": "string", "enum": list(CONTENT_TYPES)}, "Default: csv."),
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
                    422: "A parameter has an invalid value.",
                    429: "Too many requests; see Retry-After.",
                    500: "Server error; the logs have it under the request id.",
                    503: "The database cannot be reached; see Retry-After.",
                }.items()
            },
        },
    )
    def get(self, request: Request) -> HttpResponseBase:
        token = cast(Token, request.auth)
        format_ = query_choice(request._request, "format", tuple(CONTENT_TYPES))
        filters = self.filter(request)
        fields: dict[str, Any] = msgspec.to_builtins(filters)
        export = export_history(
            self.visibility(request), filters, format_=format_, team_id=token.space.team_id, actor=("token", token.pk)
        )
        record(
            EventKind.HISTORY_EXPORTED,
            actor=self.actor(request),
            space=token.space,
            detail={"format": format_, **{field: value for field, value in fields.items() if value}},
        )
        return StreamingHttpResponse(
            export,
            headers={
                "Content-Type": CONTENT_TYPES[format_],
                "Content-Disposition": f'attachment; filename="{token.space.slug}-events.{format_}"',
                "Cache-Control": "no-store",
            },
        )


def _filter(request: Request) -> Filter:
    django_request = request._request
    text = query_text(django_request, "kind")
    kinds = tuple(text.split(",")) if text else ()
    if unknown := [kind for kind in kinds if kind not in EventKind.values]:
        raise invalid_input(422, f"kind '{unknown[0]}' is not one of: {', '.join(EventKind.values)}.")
    digest = bytes(cast(Token, request.auth).digest)
    return Filter(
        kinds=kinds,
        name=stored_name(query_text(django_request, "name") or "", digest) or None,
        prefix=stored_name(query_text(django_request, "prefix") or "", digest) or None,
        owner=query_text(django_request, "owner"),
        actor=query_text(django_request, "actor"),
        token=query_text(django_request, "token"),
        request_id=query_text(django_request, "request_id"),
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
    return to_utc(time)
