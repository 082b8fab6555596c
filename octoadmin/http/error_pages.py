"""Responses where no view answers: the contract's JSON to API clients, a page to browsers."""

from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string

from locks.api import exceptions
from locks.dashboard.rendering import theme
from octoadmin.http.request_log import PAGES


def handler400(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _page(request, 400) if _is_page(request) else exceptions.handler400(request, exception)


def handler403(request: HttpRequest, exception: Exception) -> HttpResponse:
    if _is_page(request):
        return _page(request, 403, reason=str(exception))
    return exceptions.respond(request, exceptions.to_api_error(exception) or exceptions.not_found())


def handler404(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _page(request, 404) if _is_page(request) else exceptions.handler404(request, exception)


def handler500(request: HttpRequest) -> HttpResponse:
    return _page(request, 500) if _is_page(request) else exceptions.handler500(request)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    return _page(request, 403, template="403_form.html")


def _is_page(request: HttpRequest) -> bool:
    """Also a mistyped address in a browser, which says that it prefers HTML."""
    return request.path_info.startswith(PAGES) or request.headers.get("Accept", "").startswith("text/html")


def _page(request: HttpRequest, status: int, *, template: str | None = None, reason: str = "") -> HttpResponse:
    # Without the request's context processors: the database they query may be what failed.
    context = {"request": request, "reason": reason, **theme(request)}
    return HttpResponse(render_to_string(template or f"{status}.html", context), status=status)
