"""From exceptions of Django and DRF to the contract's errors, and the answers to paths that nobody serves."""

from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from rest_framework import exceptions

from locks.api.errors import ApiError, Code, internal_error, invalid_input, unavailable


def to_api_error(exception: Exception) -> ApiError | None:
    """None for what nobody foresaw."""
    match exception:
        case exceptions.MethodNotAllowed():
            return invalid_input(405, "This path does not know that method.")
        case exceptions.UnsupportedMediaType():
            return invalid_input(415, "Send JSON, with the header 'Content-Type: application/json'.")
        case exceptions.NotFound() | Http404():
            return not_found()
        case exceptions.PermissionDenied() | PermissionDenied():
            return ApiError(403, Code.FORBIDDEN, "The token does not allow this.")
        case RequestDataTooBig():
            return invalid_input(413, "The body is too large.")
        case SuspiciousOperation():
            return invalid_input(400, "The request is malformed.")
        case exceptions.APIException() if 400 <= exception.status_code < 500:
            return invalid_input(exception.status_code, str(exception.detail))
        case OperationalError() | InterfaceError():
            return unavailable()
    return None


def not_found() -> ApiError:
    return ApiError(404, Code.NOT_FOUND, "There is nothing here, or it is not yours. See /docs for what there is.")


def respond(request: Any, refusal: ApiError) -> HttpResponse:
    """To Django's or DRF's request, whose id the middleware has set."""
    request_id: str = request.request_id
    return HttpResponse(
        refusal.body(request_id=request_id),
        status=refusal.status,
        headers=refusal.headers(request_id=request_id),
    )


def handler404(request: HttpRequest, exception: Exception) -> HttpResponse:
    return respond(request, not_found())


def handler400(request: HttpRequest, exception: Exception) -> HttpResponse:
    return respond(request, to_api_error(exception) or invalid_input(400, "The request is malformed."))


def handler500(request: HttpRequest) -> HttpResponse:
    return respond(request, internal_error())
