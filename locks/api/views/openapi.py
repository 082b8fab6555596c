"""The API's description: OpenAPI as YAML and JSON, and Swagger UI from our own static files.

The document is the same for everybody and drawn from the code, so it is made once for each process.
"""

import hashlib
from functools import cache
from threading import Lock
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseNotModified
from django.views.decorators.csrf import csrf_exempt
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import OpenApiJsonRenderer, OpenApiYamlRenderer
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularSwaggerSplitView
from rest_framework.request import Request
from rest_framework.response import Response

from locks.api.errors import invalid_input
from locks.api.exceptions import respond

# Swagger UI writes styles into its elements and draws its icons from data URLs; scripts stay ours alone.
SWAGGER_POLICY = (
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; object-src 'none'; base-uri 'none'; "
    "frame-ancestors 'none'; form-action 'self'"
)
_FORMATS = {
    "json": (OpenApiJsonRenderer, "application/vnd.oai.openapi+json"),
    "yaml": (OpenApiYamlRenderer, "application/vnd.oai.openapi"),
}
_one_at_a_time = Lock()


def _document(format_: str) -> tuple[bytes, str]:
    # drf-spectacular stumbles over itself if the first two ask at once.
    with _one_at_a_time:
        return _drawn(format_)


@cache
def _drawn(format_: str) -> tuple[bytes, str]:
    renderer, _content_type = _FORMATS[format_]
    document: bytes = renderer().render(SchemaGenerator().get_schema(public=True), renderer_context={})  # type: ignore[no-untyped-call]
    return document, f'"{hashlib.sha256(document).hexdigest()[:32]}"'


@csrf_exempt
def openapi(request: HttpRequest, format_: str) -> HttpResponse:
    if request.method not in ("GET", "HEAD"):
        return respond(request, invalid_input(405, "This path is only read."))
    document, etag = _document(format_)
    headers = {"ETag": etag, "Cache-Control": "no-cache"}
    if request.headers.get("If-None-Match") == etag:
        return HttpResponseNotModified(headers=headers)
    return HttpResponse(document, content_type=_FORMATS[format_][1], headers=headers)


class SwaggerView(SpectacularSwaggerSplitView):
    """The script comes from an address of its own, so that the page needs no inline one."""

    authentication_classes = ()
    permission_classes = ()
    url = "/openapi.json"

    @extend_schema(exclude=True)
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        response: Response = super().get(request, *args, **kwargs)  # type: ignore[no-untyped-call]
        response["Content-Security-Policy"] = SWAGGER_POLICY
        return response
