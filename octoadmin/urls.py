"""Which view answers which path."""

from django.contrib import admin
from django.urls import include, path

from octoadmin.probes import views

urlpatterns = [
    path("health", views.health),
    path("status", views.status),
    path("metrics", views.metrics),
    path("admin/", admin.site.urls),
    path("", include("locks.api.urls")),
]
handler400 = "locks.api.handler.handler400"
handler404 = "locks.api.handler.handler404"
handler500 = "locks.api.handler.handler500"
