"""What surrounds every request to Django: its id, its host, its log line, and the headers of every page."""

import logging
import secrets
import time
from collections.abc import Callable
from urllib.parse import quote

import structlog
from allauth.account.middleware import AccountMiddleware
from django.core.exceptions import DisallowedHost
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.utils.log import log_response

from locks.api.errors import RETRY_AFTER_SECONDS, invalid_input, new_request_id, unavailable
from locks.api.exceptions import respond
from octoadmin.serving.wsgi_environ import REQUEST_ID

GetResponse = Callable[[HttpRequest], HttpResponseBase]

PAGES = ("/ui/", "/admin/")
# Load balancers and scrapers ask by address, and get nothing that depends on the host.
ANY_HOST = ("/health", "/metrics")
YEAR_SECONDS = 31_536_000

_log = structlog.stdlib.get_logger(__name__)
# Asked before the line is put together: on the hot path it is nearly always dropped.
_logger = logging.getLogger(__name__)


class RequestContext:
    """The outermost one: gives the request its id, refuses hosts that are not ours, and writes the log line.
    When the database is gone it says so in the contract's words, or with a page."""

    def __init__(self, get_response: GetResponse) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        began = time.perf_counter()
        # The lane has made one already. A header of the client's cannot get there: those begin with HTTP_.
        request_id: str = request.META.get(REQUEST_ID) or new_request_id()
        request.request_id = request_id  # type: ignore[attr-defined]
        structlog.contextvars.bind_contextvars(request_id=request_id)
        try:
            response = self._refused_host(request) or self._get_response(request)
            response["X-Request-Id"] = request_id
            _log_request(request, response, seconds=time.perf_counter() - began)
            return response
        finally:
            structlog.contextvars.clear_contextvars()

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if not isinstance(exception, OperationalError | InterfaceError):
            return None
        if _is_page(request):
            response = _unavailable_page(request)
        else:
            response = respond(request, unavailable())
        # Django's own way to say why, instead of a line of its own for every 5xx.
        log_response(
            "the database failed a request: %s",
            str(exception),
            response=response,
            request=request,
            logger=_logger,
            level="warning",
        )
        return response

    def _refused_host(self, request: HttpRequest) -> HttpResponse | None:
        if request.path_info in ANY_HOST:
            return None
        try:
            request.get_host()
        except DisallowedHost:
            details = "This server does not answer to that name. Its operator can add it to ALLOWED_HOSTS."
            return respond(request, invalid_input(400, details))
        return None


class SecureWhenHttps:
    """Over https, cookies never travel in the clear again, and the browser does not try http again."""

    def __init__(self, get_response: GetResponse) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self._get_response(request)
        if request.is_secure():
            response.headers.setdefault("Strict-Transport-Security", f"max-age={YEAR_SECONDS}")
            for cookie in response.cookies.values():
                cookie["secure"] = True
        return response


class ContentSecurityPolicy:
    """Pages run our own scripts and styles only. A template that has to write one inline gives it
    `nonce="{{ request.csp_nonce }}"`. A view may set a policy of its own."""

    def __init__(self, get_response: GetResponse) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        nonce = Nonce()
        request.csp_nonce = nonce  # type: ignore[attr-defined]
        response = self._get_response(request)
        if response.headers.get("Content-Type", "").startswith("text/html"):
            response.headers.setdefault("Content-Security-Policy", _policy(nonce))
        return response


class AccountsForPages:
    """django-allauth wants to know the request while somebody signs in; nothing but pages pays for that."""

    def __init__(self, get_response: GetResponse) -> None:
        self._get_response = get_response
        self._with_accounts = AccountMiddleware(get_response)

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        answer = self._with_accounts if _is_page(request) else self._get_response
        response: HttpResponseBase = answer(request)
        return response


class Nonce:
    """Made when a template first writes it, so that the policy names it only if it is needed."""

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
    # Without the request's context processors: they would ask the database who is signed in.
    page = render_to_string("503.html", {"request": request, "retry": request.method == "GET"})
    return HttpResponse(page, status=503, headers={"Retry-After": str(RETRY_AFTER_SECONDS)})


def _log_request(request: HttpRequest, response: HttpResponseBase, *, seconds: float) -> None:
    level = logging.INFO if response.status_code >= 500 or _is_page(request) else logging.DEBUG
    if _logger.isEnabledFor(level):
        _log.log(
            level,
            "request",
            method=request.method,
            # Quoted, so that no path can write a line of its own; without the query, which may hold secrets.
            path=quote(request.path_info),
            status=response.status_code,
            ms=round(seconds * 1000, 1),
        )
