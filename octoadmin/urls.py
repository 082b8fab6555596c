"""Which view answers which path."""

from django.contrib import admin
from django.urls import include, path

from locks.dashboard.home.views import root
from octoadmin.http.help_site import help_site
from octoadmin.monitoring import views
from octoadmin.monitoring.octostore import admin_status

urlpatterns = [
    path("health", views.health),
    path("status", views.status),
    path("metrics", views.metrics),
    path("admin/status", admin_status),
    path("help/<path:path>", help_site),
    path("help/", help_site, {"path": ""}),
    path("admin/", admin.site.urls),
    path("ui/", include("locks.dashboard.auth.urls")),
    path("ui/", include("locks.dashboard.urls")),
    path("", root),
    path("", include("locks.api.urls")),
]
handler400 = "octoadmin.http.error_pages.handler400"
handler403 = "octoadmin.http.error_pages.handler403"
handler404 = "octoadmin.http.error_pages.handler404"
handler500 = "octoadmin.http.error_pages.handler500"
