"""What all endpoints of the API have in common, on DRF's APIView.

Lean on purpose: a view decodes its body with msgspec, calls the engine and answers with encoded bytes; DRF's parsers,
serializers and content negotiation stay out of the way.
"""

from functools import lru_cache
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
from locks.api.lease_options import terms
from locks.api.limits import limits
from locks.api.parsing import MAX_BODY, parse_body
from locks.api.responses import AnyOutcome
from locks.api.usage_counters import tallies
from locks.api.usage_flusher import usage
from locks.engine.execution import Unavailable
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

    def perform_content_negotiation(self, request: Request, force: bool = False) -> tuple[BaseRenderer, str]:
        """There is only JSON, whatever the client says it accepts."""
        return JSONRenderer(), "application/json"

    def get_exception_handler(self) -> Any:
        return to_error_response


def to_error_response(exception: Exception, context: dict[str, Any]) -> HttpResponse:
    """DRF's exception handler: every failure in the contract's shape."""
    response = respond(context["request"], _refusal_for(exception))
    # What went wrong was logged where it was caught; Django would add a line that says less.
    response._has_been_logged = True  # type: ignore[attr-defined]
    return response


def _refusal_for(exception: Exception) -> ApiError:
    match exception:
        case ApiError():
            return exception
        case NotAllowed():
            # Revoked since the request began: the action looks again, under the team's lock.
            return authentication_failed()
        case Unavailable():
            _log.warning("the database failed a request", error=str(exception))
            return unavailable()
        case RetriesExhausted():
            _log.warning("a request remained undecided", operation=str(exception))
            return overloaded()
    known = to_api_error(exception)
    if known is None:
        _log.exception("unhandled exception")
        return internal_error()
    return known


def presented(request: Request) -> PresentedToken:
    return cast(PresentedToken, request.auth)


def request_id(request: Request) -> str:
    """Set by the middleware that surrounds every request."""
    return cast(str, request.request_id)  # type: ignore[attr-defined]


@lru_cache(maxsize=10_000)
def team_of(space_id: int) -> str:
    """For log lines only, so it may be out of date when a team is renamed."""
    return Space.objects.values_list("team__slug", flat=True).get(pk=space_id)


class LockApiView(ApiView):
    """For views whose token the engine's statement checks."""

    authentication_classes = (TokenFormatAuthentication,)

    def caller(self, request: Request) -> dict[str, Any]:
        """The part of an engine request that tells who asks."""
        token = presented(request)
        return {
            "digest": token.digest.hex(),
            "request_id": request_id(request),
            "address": request.META.get("REMOTE_ADDR"),
        }

    largest_body = MAX_BODY

    def body(self, request: Request, decoder: "msgspec.json.Decoder[Message]") -> Message:
        return parse_body(request._request, decoder, largest=self.largest_body)

    def terms(self, request: Request, body: schemas.LeaseOptions) -> dict[str, Any]:
        """The part of an engine request that tells what the lease is to be like."""
        return terms(body, idempotency_key=request.META.get("HTTP_IDEMPOTENCY_KEY"))

    def note(self, request: Request, outcome: AnyOutcome, *, waits: bool = False) -> None:
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
    """What the statement has found out about the token: that it is none, which is refused, or what it may do. Returns
    its space. Whether a request that waits is refused shows at its end."""
    space_id = outcome.space_id
    if space_id is None or outcome.verdict == Verdict.UNAUTHENTICATED:
        limits.record_failure(address, digest)
        raise authentication_failed()
    if not waits:
        tallies.count((outcome,))
    limits.set_rate(digest, outcome.requests_per_second)
    usage.note(digest=digest, space_id=space_id, address=address, agent=agent)
    return space_id


def no_content() -> HttpResponse:
    response = HttpResponse(status=204)
    del response["Content-Type"]
    return response


def answer(message: Any, *, status: int = 200) -> HttpResponse:
    return HttpResponse(_encode(message), status=status, content_type="application/json")
