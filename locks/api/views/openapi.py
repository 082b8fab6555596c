"""The OpenAPI document as YAML and JSON, and Swagger UI from our own static files.

The document is generated once per process.
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

# Swagger UI uses inline styles and icons from data URLs; scripts come from our own files only.
SWAGGER_POLICY = (
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; object-src 'none'; base-uri 'none'; "
    "frame-ancestors 'none'; form-action 'self'"
)
_FORMATS = {
    "json": (OpenApiJsonRenderer, "application/vnd.oai.openapi+json"),
    "yaml": (OpenApiYamlRenderer, "application/vnd.oai.openapi"),
}
_generating = Lock()


def _document(format_: str) -> tuple[bytes, str]:
    # drf-spectacular's generator is not thread-safe.
    with _generating:
        return _generate(format_)


@cache
def _generate(format_: str) -> tuple[bytes, str]:
    renderer, _content_type = _FORMATS[format_]
    document: bytes = renderer().render(SchemaGenerator().get_schema(public=True), renderer_context={})  # type: ignore[no-untyped-call]  # no types
    return document, f'"{hashlib.sha256(document).hexdigest()[:32]}"'


@csrf_exempt
def openapi(request: HttpRequest, format_: str) -> HttpResponse:
    if request.method not in ("GET", "HEAD"):
        return respond(request, invalid_input(405, "This path supports GET only."))
    document, etag = _document(format_)
    headers = {"ETag": etag, "Cache-Control": "no-cache"}
    if request.headers.get("If-None-Match") == etag:
        return HttpResponseNotModified(headers=headers)
    return HttpResponse(document, content_type=_FORMATS[format_][1], headers=headers)


class SwaggerView(SpectacularSwaggerSplitView):
    """The split view loads its script from a URL, so that the page needs no inline script."""

    authentication_classes = ()
    permission_classes = ()
    # OPTIONS would be described with the template of the page.
    metadata_class = None
    url = "/openapi.json"

    @extend_schema(exclude=True)
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        response: Response = super().get(request, *args, **kwargs)  # type: ignore[no-untyped-call]  # no types
        response["Content-Security-Policy"] = SWAGGER_POLICY
        return response
