"""The API's description: OpenAPI as YAML and JSON, and Swagger UI from our own static files."""

from drf_spectacular.renderers import OpenApiJsonRenderer, OpenApiYamlRenderer
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView


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
