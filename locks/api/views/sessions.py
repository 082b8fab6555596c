"""Sessions: one running process, and everything it holds, kept alive by one heartbeat."""

from uuid import UUID

from django.http import HttpResponse
from drf_spectacular.utils import OpenApiExample, OpenApiParameter
from rest_framework.request import Request

from locks.api import responses, schemas
from locks.api.base_view import LockApiView, answer, no_content
from locks.api.errors import ApiError, Code
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
    description="As it was given.",
)


class SessionsView(LockApiView):
    @describe(
        "open_session",
        "Open a session",
        tag="Sessions",
        scope="locks:write",
        body=schemas.OpenSessionBody,
        body_required=False,
        answers={201: schemas.SessionOpened},
        description="Locks that are taken with its `session_id` live only while it does, so one keepalive holds them "
        "all. A session belongs to the token that opened it.",
        examples=[OpenApiExample("a runner", {"ttl_seconds": 30, "owner": "runner-7"}, request_only=True)],
    )
    def post(self, request: Request) -> HttpResponse:
        body = self.body(request, _OPEN)
        asked = requests.OpenSession(
            ttl_seconds=_check_ttl(body.ttl_seconds),
            owner=check_text("owner", body.owner),
            metadata=check_text("metadata", body.metadata),
            **self.caller(request),
        )
        outcome = run(open_session(asked))
        self.note(request, outcome)
        return answer(responses.session_opened(outcome), status=201)

    @describe(
        "list_sessions",
        "See the sessions of this token",
        tag="Sessions",
        scope="locks:read",
        answers={200: schemas.Sessions},
        description="Those that live, the latest first, at most a thousand.",
    )
    def get(self, request: Request) -> HttpResponse:
        rows = run(sessions(digest=self.caller(request)["digest"]))
        self.note(request, rows[0])
        responses.raise_api_error(rows[0], scope="locks:read")
        return answer(schemas.Sessions(sessions=[responses.session(row) for row in rows if row.session_id is not None]))


class SessionView(LockApiView):
    @describe(
        "inspect_session",
        "See a session",
        tag="Sessions",
        scope="locks:read",
        answers={200: schemas.Session},
        errors=(404,),
        parameters=[SESSION_ID],
        description="Also for a while after it has ended.",
    )
    def get(self, request: Request, session_id: UUID) -> HttpResponse:
        (row,) = run(sessions(digest=self.caller(request)["digest"], session_id=session_id))
        self.note(request, row)
        return answer(responses.session(row))

    @describe(
        "end_session",
        "End a session",
        tag="Sessions",
        scope="locks:write",
        answers={204: None},
        errors=(404, 410),
        parameters=[SESSION_ID],
        description="Its locks are free at once, and handed to whoever waits for them.",
    )
    def delete(self, request: Request, session_id: UUID) -> HttpResponse:
        outcome = run(end_session(requests.SessionRef(session_id=session_id, **self.caller(request))))
        self.note(request, outcome)
        responses.raise_api_error(outcome, scope="locks:write")
        return no_content()


class KeepaliveView(LockApiView):
    @describe(
        "keep_session_alive",
        "Keep a session alive",
        tag="Sessions",
        scope="locks:write",
        answers={200: schemas.SessionKeptAlive},
        errors=(404, 410),
        parameters=[SESSION_ID],
        description="Sets the expiry to now plus the session's TTL. A session that has ended is never revived.",
    )
    def post(self, request: Request, session_id: UUID) -> HttpResponse:
        (outcome,) = run(keep_alive([requests.SessionRef(session_id=session_id, **self.caller(request))]))
        self.note(request, outcome)
        return answer(responses.session_kept_alive(outcome))


def _check_ttl(ttl_seconds: int | None) -> int:
    if ttl_seconds is None:
        return SESSION_SECONDS
    if not MIN_SESSION_SECONDS <= ttl_seconds <= MAX_SESSION_SECONDS:
        limits = f"{MIN_SESSION_SECONDS} to {MAX_SESSION_SECONDS}"
        raise ApiError(400, Code.INVALID_TTL, f"ttl_seconds of a session must be a whole number from {limits}.")
    return ttl_seconds
