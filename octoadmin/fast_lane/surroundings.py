"""The headers that surround Django's answers, found out by asking Django, so that they are defined once."""

from django.conf import settings
from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpResponse
from django.utils.module_loading import import_string

from locks.api.base_view import LockApiView
from octoadmin.serving.asgi_types import Headers
from octoadmin.serving.wsgi_environ import attach_body, environ_of


def headers_of(view: type[LockApiView], *, secure: bool) -> Headers:
    """What the view and all middleware but the outermost add to an answer in JSON, its length and id aside."""

    def answer(request: WSGIRequest) -> HttpResponse:
        response = HttpResponse(content_type="application/json")
        endpoint = view()
        endpoint.setup(request)
        for name, value in endpoint.default_response_headers.items():
            response[name] = value
        return response

    scope = {
        "raw_path": b"/locks/a", "method": "GET", "query_string": b"", "http_version": "1.1",
        "scheme": "https" if secure else "http", "headers": [(b"host", b"localhost")],
    }  # fmt: skip
    environ = environ_of(scope, request_id="", trusted_proxies=())
    attach_body(environ, b"")
    handle = answer
    # The outermost one gives the id, checks the host and writes the log: that is the lane's own to do.
    for path in reversed(settings.MIDDLEWARE[1:]):
        handle = import_string(path)(handle)
    response = handle(WSGIRequest(environ))
    return [(name.lower().encode(), value.encode()) for name, value in response.items()]
