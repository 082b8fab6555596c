"""Endpoints for sessions. A session is one running process; one keepalive renews everything that it holds."""

from uuid import UUID

from django.http import HttpResponse
from drf_spectacular.utils import OpenApiExample, OpenApiParameter
from rest_framework.request import Request

from locks.api import responses, schemas
from locks.api.base_view import LockApiView, json_response, no_content
from locks.api.openapi_hooks import describe
from locks.api.parsing import check_text, decoder
from locks.engine import requests
from locks.engine.execution import run
from locks.engine.operations import end_session, keep_alive, open_session, sessions
from locks.models.session import MAX_SESSION_SECONDS, MIN_SESSION_SECONDS, SESSION_SECONDS

_OPEN = decoder(schemas.OpenSessionBody)

SESSION_ID = OpenApiParameter(
    "session_id",
    type={"type": "string", "format": "uuid"},
    location=OpenApiParameter.PATH,
    description="The `session_id` from the response that opened the session.",
)


class SessionsView(LockApiView):
    @describe(
        "open_session",
        "Open a session",
        tag="Sessions",
        scope="locks:write",
        body=schemas.OpenSessionBody,
        body_required=False,
        responses={201: schemas.SessionOpened},
        description="Locks acquired with its `session_id` are held only while the session is alive, so one keepalive "
        "renews them all. A session belongs to the token that opened it.",
        examples=[OpenApiExample("a runner", {"ttl_seconds": 30, "owner": "runner-7"}, request_only=True)],
    )
    def post(self, request: Request) -> HttpResponse:
        body = self.body(request, _OPEN)
        open_request = requests.OpenSession(
            ttl_seconds=_within_limits(body.ttl_seconds),
            owner=check_text("owner", body.owner),
            metadata=check_text("metadata", body.metadata),
            **self.caller(request),
        )
        outcome = run(open_session(open_request))
        self.record_use(request, outcome)
        return json_response(responses.session_opened(outcome), status=201)

    @describe(
        "list_sessions",
        "List the sessions of this token",
        tag="Sessions",
        scope="locks:read",
        responses={200: schemas.Sessions},
        description="Active sessions, newest first, at most a thousand.",
    )
    def get(self, request: Request) -> HttpResponse:
        rows = run(sessions(digest=self.caller(request)["digest"]))
        self.record_use(request, rows[0])
        responses.raise_api_error(rows[0], scope="locks:read")
        listed = [responses.session(row) for row in rows if row.session_id is not None]
        return json_response(schemas.Sessions(sessions=listed))


class SessionView(LockApiView):
    @describe(
        "inspect_session",
        "Inspect a session",
        tag="Sessions",
        scope="locks:read",
        responses={200: schemas.Session},
        errors=(404,),
        parameters=[SESSION_ID],
        description="A session that has ended is shown for some days.",
    )
    def get(self, request: Request, session_id: UUID) -> HttpResponse:
        (row,) = run(sessions(digest=self.caller(request)["digest"], session_id=session_id))
        self.record_use(request, row)
        return json_response(responses.session(row))

    @describe(
        "end_session",
        "End a session",
        tag="Sessions",
        scope="locks:write",
        responses={204: None},
        errors=(404, 410),
        parameters=[SESSION_ID],
        description="Its locks are free at once, or handed over to the next waiter.",
    )
    def delete(self, request: Request, session_id: UUID) -> HttpResponse:
        outcome = run(end_session(requests.SessionRef(session_id=session_id, **self.caller(request))))
        self.record_use(request, outcome)
        responses.raise_api_error(outcome, scope="locks:write")
        return no_content()


class KeepaliveView(LockApiView):
    @describe(
        "keep_session_alive",
        "Keep a session alive",
        tag="Sessions",
        scope="locks:write",
        responses={200: schemas.SessionKeptAlive},
        errors=(404, 410),
        parameters=[SESSION_ID],
        description="Sets the expiry to now plus the session's TTL. A session that has ended cannot be revived.",
    )
    def post(self, request: Request, session_id: UUID) -> HttpResponse:
        (outcome,) = run(keep_alive([requests.SessionRef(session_id=session_id, **self.caller(request))]))
        self.record_use(request, outcome)
        return json_response(responses.session_kept_alive(outcome))


def _within_limits(ttl_seconds: int | None) -> int:
    if ttl_seconds is None:
        return SESSION_SECONDS
    return max(MIN_SESSION_SECONDS, min(MAX_SESSION_SECONDS, ttl_seconds))
