"""The headers that Django's middleware adds to every response, learned from Django so that they are defined once."""

from collections.abc import Callable
from functools import cache

from django.conf import settings
from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpResponse
from django.utils.module_loading import import_string

from locks.api.base_view import ApiView
from octoadmin.http.asgi_types import Headers
from octoadmin.wsgi_bridge.environ import attach_body, environ_of

_VIEW = "octoadmin.view"


def static_headers(view: type[ApiView], *, secure: bool) -> Headers:
    """What the view and all middleware but the outermost add to a JSON response, except its length and request id."""
    scope = {
        "raw_path": b"/locks/a", "method": "GET", "query_string": b"", "http_version": "1.1",
        "scheme": "https" if secure else "http", "headers": [(b"host", b"localhost")],
    }  # fmt: skip
    environ = environ_of(scope, request_id="", trusted_proxies=())
    attach_body(environ, b"")
    response = _middleware()(WSGIRequest({**environ, _VIEW: view}))
    return [(name.lower().encode(), value.encode()) for name, value in response.items()]


@cache
def _middleware() -> Callable[[WSGIRequest], HttpResponse]:
    """Built once: WhiteNoise reads the directory of all static files, for longer than an event loop may stand still."""
    handle = _empty_response
    # The outermost one sets the id, checks the host and writes the log line: the fast path does that itself.
    for path in reversed(settings.MIDDLEWARE[1:]):
        handle = import_string(path)(handle)
    return handle


def _empty_response(request: WSGIRequest) -> HttpResponse:
    response = HttpResponse(content_type="application/json")
    view = request.META[_VIEW]()
    view.setup(request)
    for name, value in view.default_response_headers.items():
        response[name] = value
    return response
