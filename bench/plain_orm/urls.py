"""The two paths of the comparison."""

from django.urls import path

from bench.plain_orm.views import acquire, release

urlpatterns = [path("locks/<name>/acquire", acquire), path("locks/<name>/release", release)]
