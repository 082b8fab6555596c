"""The API's description: OpenAPI as YAML and JSON, and Swagger UI from our own static files."""

from typing import Any

from drf_spectacular.renderers import OpenApiJsonRenderer, OpenApiYamlRenderer
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView
from rest_framework.request import Request
from rest_framework.response import Response

# Swagger UI writes styles into its elements and draws its icons from data URLs; scripts stay ours alone.
SWAGGER_POLICY = (
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; object-src 'none'; base-uri 'none'; "
    "frame-ancestors 'none'; form-action 'self'"
)


class YamlView(SpectacularAPIView):
    authentication_classes = ()
    permission_classes = ()
    renderer_classes = [OpenApiYamlRenderer]


class JsonView(SpectacularAPIView):
    authentication_classes = ()
    permission_classes = ()
    renderer_classes = [OpenApiJsonRenderer]


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
