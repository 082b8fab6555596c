"""Exceptions of Django and DRF as errors of the API, and Django's error handlers."""

from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from rest_framework import exceptions

from locks.api.errors import ApiError, Code, internal_error, invalid_input, unavailable
from locks.events.history.export import RETRY_SECONDS, TooManyExports


def to_api_error(exception: Exception) -> ApiError | None:
    """None for unexpected exceptions."""
    match exception:
        case exceptions.MethodNotAllowed():
            return invalid_input(405, "This path does not support that method. See /docs.")
        case exceptions.UnsupportedMediaType():
            return invalid_input(415, "Send JSON, with the header 'Content-Type: application/json'.")
        case exceptions.NotFound() | Http404():
            return not_found()
        case exceptions.PermissionDenied() | PermissionDenied():
            return ApiError(403, Code.FORBIDDEN, "The token does not permit this.")
        case TooManyExports():
            details = f"{exception} Try again when one has ended."
            return ApiError(429, Code.RATE_LIMITED, details, retry_after_ms=RETRY_SECONDS * 1000)
        case RequestDataTooBig():
            return invalid_input(413, "The body is too large. Send less in one request.")
        case SuspiciousOperation():
            return _malformed()
        case exceptions.APIException() if 400 <= exception.status_code < 500:
            return invalid_input(exception.status_code, str(exception.detail))
        case OperationalError() | InterfaceError():
            return unavailable()
    return None


def not_found() -> ApiError:
    return ApiError(404, Code.NOT_FOUND, "Not found, or not visible to this token. See /docs for all paths.")


def _malformed() -> ApiError:
    return invalid_input(400, "The request is malformed. See /docs for its format.")


def respond(request: Any, error: ApiError) -> HttpResponse:
    """To a request of Django or DRF; the middleware has set its id."""
    request_id: str = request.request_id
    return HttpResponse(
        error.body(request_id=request_id), status=error.status, headers=error.headers(request_id=request_id)
    )


def handler404(request: HttpRequest, exception: Exception) -> HttpResponse:
    return respond(request, not_found())


def handler400(request: HttpRequest, exception: Exception) -> HttpResponse:
    return respond(request, to_api_error(exception) or _malformed())


def handler500(request: HttpRequest) -> HttpResponse:
    return respond(request, internal_error())
