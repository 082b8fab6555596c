"""The headers that Django's middleware adds to every response, learned from Django so that they are defined once."""

from django.conf import settings
from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpResponse
from django.utils.module_loading import import_string

from locks.api.base_view import ApiView
from octoadmin.http.asgi_types import Headers
from octoadmin.wsgi_bridge.environ import attach_body, environ_of


def static_headers(view: type[ApiView], *, secure: bool) -> Headers:
    """What the view and all middleware but the outermost add to a JSON response, except its length and request id."""

    def get_response(request: WSGIRequest) -> HttpResponse:
        response = HttpResponse(content_type="application/json")
        instance = view()
        instance.setup(request)
        for name, value in instance.default_response_headers.items():
            response[name] = value
        return response

    scope = {
        "raw_path": b"/locks/a", "method": "GET", "query_string": b"", "http_version": "1.1",
        "scheme": "https" if secure else "http", "headers": [(b"host", b"localhost")],
    }  # fmt: skip
    environ = environ_of(scope, request_id="", trusted_proxies=())
    attach_body(environ, b"")
    handle = get_response
    # The outermost one sets the id, checks the host and writes the log line: the fast path does that itself.
    for path in reversed(settings.MIDDLEWARE[1:]):
        handle = import_string(path)(handle)
    response = handle(WSGIRequest(environ))
    return [(name.lower().encode(), value.encode()) for name, value in response.items()]
