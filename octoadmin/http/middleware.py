"""Middleware around every request to Django: its id, its host, its log line, and the headers of every page."""

import logging
import re
import secrets
import time
from collections.abc import Callable
from urllib.parse import unquote_to_bytes

import structlog
from allauth.account.middleware import AccountMiddleware
from django.core.exceptions import DisallowedHost
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.utils.encoding import repercent_broken_unicode
from django.utils.log import log_response

from locks.api.errors import RETRY_AFTER_SECONDS, invalid_input, new_request_id, unavailable
from locks.api.exceptions import respond
from locks.api.parsing import ENCODED_SLASH
from locks.async_responses import AsyncResponse
from locks.engine.execution import Unavailable
from locks.engine.retry import RetriesExhausted
from octoadmin.http.request_log import PAGES, REQUEST_ID, log_request

GetResponse = Callable[[HttpRequest], HttpResponseBase]

# Load balancers and scrapers request these by address; the responses do not depend on the host.
ANY_HOST = ("/health", "/metrics")

_logger = logging.getLogger(__name__)


class RequestContextMiddleware:
    """The outermost one: sets the request's id, rejects unknown hosts and writes the log line. When the database is
    unreachable, API requests get the contract's 503 and pages an error page."""

    def __init__(self, get_response: GetResponse) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        started = time.perf_counter()
        # Set by the WSGI bridge. A client cannot set it: its headers begin with HTTP_.
        request_id: str = request.META.get(REQUEST_ID) or new_request_id()
        request.request_id = request_id  # type: ignore[attr-defined]  # ours, read by views and error handlers
        structlog.contextvars.bind_contextvars(request_id=request_id)
        try:
            response = self._reject_host(request) or self._get_response(request)
            response["X-Request-Id"] = request_id
            if isinstance(response, AsyncResponse):
                # It has yet to begin: the bridge logs it when it ends.
                response.log_context = structlog.contextvars.get_contextvars()
            else:
                log_request(
                    method=request.method,
                    path=request.path,
                    status=response.status_code,
                    seconds=time.perf_counter() - started,
                )
            return response
        finally:
            structlog.contextvars.clear_contextvars()

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if not isinstance(exception, OperationalError | InterfaceError | Unavailable | RetriesExhausted):
            return None
        if _is_page(request):
            response = _unavailable_page(request)
        else:
            response = respond(request, unavailable())
        # Marks the response as logged: Django would add a line of its own for every 5xx.
        log_response(
            "the database failed a request: %s",
            str(exception),
            response=response,
            request=request,
            logger=_logger,
            level="warning",
        )
        return response

    def _reject_host(self, request: HttpRequest) -> HttpResponse | None:
        if request.path_info in ANY_HOST:
            return None
        try:
            request.get_host()
        except DisallowedHost:
            details = "This server does not answer to that name. Its operator can add it to ALLOWED_HOSTS."
            return respond(request, invalid_input(400, details))
        return None


class PathMiddleware:
    """The innermost one: views of locks see which slashes of a name were sent as `%2F` (see locks.api.parsing). No page
    is about a name with NUL, which PostgreSQL would refuse."""

    def __init__(self, get_response: GetResponse) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if "\0" in request.path_info and _is_page(request):
            raise Http404
        raw_path: str = request.META.get("RAW_URI", "")
        if "%" in raw_path and request.path_info.startswith("/locks/"):
            parts = re.split("%2f", raw_path, flags=re.IGNORECASE)
            request.path_info = ENCODED_SLASH.join(_decoded(part) for part in parts)
        return self._get_response(request)


def _decoded(raw_path: str) -> str:
    """As Django decodes a path."""
    return repercent_broken_unicode(unquote_to_bytes(raw_path.encode("latin-1"))).decode()


class SecureCookiesMiddleware:
    """Marks cookies as secure over https. Django's settings for it are fixed for all requests, and would break plain
    http on loopback."""

    def __init__(self, get_response: GetResponse) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self._get_response(request)
        if request.is_secure():
            for cookie in response.cookies.values():
                cookie["secure"] = True
        return response


class ContentSecurityPolicyMiddleware:
    """Pages run our own scripts and styles only. A template with an inline one gives it
    `nonce="{{ request.csp_nonce }}"`. A view may set a policy of its own."""

    def __init__(self, get_response: GetResponse) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        nonce = Nonce()
        request.csp_nonce = nonce  # type: ignore[attr-defined]  # ours, read by templates
        response = self._get_response(request)
        if response.headers.get("Content-Type", "").startswith("text/html"):
            response.headers.setdefault("Content-Security-Policy", _policy(nonce))
        return response


class AllauthForPagesMiddleware:
    """django-allauth needs the request while a user signs in; API requests skip its middleware."""

    def __init__(self, get_response: GetResponse) -> None:
        self._get_response = get_response
        self._allauth = AccountMiddleware(get_response)

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        handle = self._allauth if _is_page(request) else self._get_response
        response: HttpResponseBase = handle(request)
        return response


class Nonce:
    """Generated when a template first uses it, so that the policy contains it only if needed."""

    def __init__(self) -> None:
        self.value: str | None = None

    def __str__(self) -> str:
        if self.value is None:
            self.value = secrets.token_urlsafe(16)
        return self.value


def _policy(nonce: Nonce) -> str:
    inline = f"script-src 'self' 'nonce-{nonce}'; style-src 'self' 'nonce-{nonce}'; " if nonce.value else ""
    return f"default-src 'self'; {inline}object-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'"


def _is_page(request: HttpRequest) -> bool:
    return request.path_info.startswith(PAGES)


def _unavailable_page(request: HttpRequest) -> HttpResponse:
    # Without the request's context processors: they would query the database for the user.
    page = render_to_string("503.html", {"request": request, "retry": request.method == "GET"})
    return HttpResponse(page, status=503, headers={"Retry-After": str(RETRY_AFTER_SECONDS)})
