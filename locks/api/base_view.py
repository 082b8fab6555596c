"""The base classes of all API views, on DRF's APIView.

A view decodes its body with msgspec, calls the engine and returns encoded bytes. DRF's parsers, serializers and content
negotiation are not used, because they cost more than the rest of a request.
"""

from functools import cache, lru_cache
from typing import Any, TypeVar, cast

import msgspec
import structlog
from django.http import HttpResponse
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.views import APIView

from locks.api import schemas
from locks.api.authentication import TokenFormatAuthentication
from locks.api.errors import ApiError, authentication_failed, internal_error, overloaded, unavailable
from locks.api.exceptions import respond, to_api_error
from locks.api.lease_options import lease_options
from locks.api.limits import limits
from locks.api.parsing import MAX_BODY, name_in_path, parse_body
from locks.api.responses import AnyOutcome
from locks.api.usage_counters import usage_counters
from locks.api.usage_flusher import usage_flusher
from locks.engine.execution import Unavailable
from locks.engine.names import Rules
from locks.engine.retry import RetriesExhausted
from locks.engine.verdicts import Verdict
from locks.models import Space
from locks.services.teams import NotAllowed
from locks.token_format import PresentedToken

Message = TypeVar("Message")

_encode = msgspec.json.Encoder().encode
_log = structlog.stdlib.get_logger(__name__)


class ApiView(APIView):
    permission_classes = ()
    renderer_classes = (JSONRenderer,)
    # OPTIONS would describe parsers and renderers that are not used here.
    metadata_class = None
    max_body = MAX_BODY

    def perform_content_negotiation(self, request: Request, force: bool = False) -> tuple[BaseRenderer, str]:
        """Always JSON, whatever the Accept header says."""
        return JSONRenderer(), "application/json"

    def get_exception_handler(self) -> Any:
        return to_error_response


def to_error_response(exception: Exception, context: dict[str, Any]) -> HttpResponse:
    """DRF's exception handler."""
    response = respond(context["request"], _api_error(exception))
    # The error is logged where it was caught, so Django must not log it again.
    response._has_been_logged = True  # type: ignore[attr-defined]  # read by Django's log_response
    return response


def _api_error(exception: Exception) -> ApiError:
    match exception:
        case ApiError():
            return exception
        case NotAllowed():
            # Revoked since the request began: services check the token again under the team's lock.
            return authentication_failed()
        case Unavailable():
            _log.warning("the database failed a request", error=str(exception))
            return unavailable()
        case RetriesExhausted():
            _log.warning("a request exhausted its retries", operation=str(exception))
            return overloaded()
    error = to_api_error(exception)
    if error is None:
        _log.exception("unhandled exception")
        return internal_error()
    return error


def presented(request: Request) -> PresentedToken:
    return cast(PresentedToken, request.auth)


def request_id(request: Request) -> str:
    """Set by the middleware for every request."""
    return cast(str, request.request_id)  # type: ignore[attr-defined]  # the middleware's attribute


@lru_cache(maxsize=10_000)
def team_of(space_id: int) -> str:
    """For log lines only, so the cached slug may be out of date."""
    return Space.objects.values_list("team__slug", flat=True).get(pk=space_id)


class LockApiView(ApiView):
    """For views whose token the engine's statement authenticates."""

    authentication_classes = (TokenFormatAuthentication,)

    def caller(self, request: Request) -> dict[str, Any]:
        """The fields of an engine request that identify the caller."""
        token = presented(request)
        return {
            "digest": token.digest.hex(),
            "request_id": request_id(request),
            "address": request.META.get("REMOTE_ADDR"),
        }

    def rules(self, request: Request) -> Rules:
        """Of the token's space. An unknown token has none, and is refused by the statement."""
        spaces = Space.objects.filter(tokens__digest=presented(request).digest)
        return cache(lambda: spaces.values_list("namespaces", flat=True).first() or {})

    def name(self, request: Request, text: str) -> str:
        return name_in_path(text, self.rules(request))

    def body(self, request: Request, decoder: "msgspec.json.Decoder[Message]") -> Message:
        return parse_body(request._request, decoder, max_size=self.max_body)

    def lease_options(self, request: Request, body: schemas.LeaseOptions) -> dict[str, Any]:
        return lease_options(body, idempotency_key=request.META.get("HTTP_IDEMPOTENCY_KEY"))

    def record_use(self, request: Request, outcome: AnyOutcome, *, waits: bool = False) -> None:
        token = presented(request)
        space_id = record_use(
            outcome,
            waits=waits,
            digest=token.digest,
            address=request.META.get("REMOTE_ADDR"),
            agent=request.META.get("HTTP_USER_AGENT", ""),
        )
        structlog.contextvars.bind_contextvars(team=team_of(space_id))


def record_use(outcome: AnyOutcome, *, digest: bytes, address: str | None, agent: str, waits: bool = False) -> int:
    """Records the use of a token that the statement has authenticated, and returns its space; raises ApiError for an
    invalid token. A request that waits is counted at its end."""
    space_id = outcome.space_id
    if space_id is None or outcome.verdict == Verdict.UNAUTHENTICATED:
        limits.record_failure(address, digest)
        raise authentication_failed()
    if not waits:
        usage_counters.count((outcome,))
    limits.set_rate(digest, outcome.requests_per_second)
    usage_flusher.record(digest=digest, space_id=space_id, address=address, agent=agent)
    return space_id


def no_content() -> HttpResponse:
    response = HttpResponse(status=204)
    del response["Content-Type"]
    return response


def json_response(message: Any, *, status: int = 200) -> HttpResponse:
    return HttpResponse(_encode(message), status=status, content_type="application/json")
