"""The API's paths, as in the contract."""

from django.urls import path, register_converter
from django.urls.converters import StringConverter

from locks.api.views import documents, leases, many, tokens


class LockNameConverter(StringConverter):
    """Anything: what is not a name gets an answer that says why."""

    regex = r"[\s\S]*"


register_converter(LockNameConverter, "lockname")

urlpatterns = [
    path("locks", many.LocksView.as_view()),
    path("locks/claim-next", many.ClaimNextView.as_view()),
    path("locks/acquire-all", many.AcquireAllView.as_view()),
    path("locks/renew-all", many.RenewAllView.as_view()),
    path("locks/release-all", many.ReleaseAllView.as_view()),
    path("locks/<lockname:name>/acquire", leases.AcquireView.as_view()),
    path("locks/<lockname:name>/renew", leases.RenewView.as_view()),
    path("locks/<lockname:name>/release", leases.ReleaseView.as_view()),
    path("locks/<lockname:name>/force-release", leases.ForceReleaseView.as_view()),
    path("locks/<lockname:name>", leases.LockView.as_view()),
    path("whoami", tokens.WhoAmIView.as_view()),
    path("tokens", tokens.TokensView.as_view()),
    path("tokens/<str:public_id>", tokens.TokenView.as_view()),
    path("auth/token/rotate", tokens.RotateView.as_view()),
    path("openapi.yaml", documents.YamlView.as_view()),
    path("openapi.json", documents.JsonView.as_view()),
    path("docs", documents.SwaggerView.as_view()),
]
