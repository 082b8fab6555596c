"""App configurations: this project, and two apps of others with our settings."""

from allauth.account.apps import AccountConfig
from django.apps import AppConfig
from django.contrib.admin.apps import AdminConfig


class OctoadminConfig(AppConfig):
    name = "octoadmin"

    def ready(self) -> None:
        from octoadmin import celery  # noqa: F401 -- makes it Celery's current app


class AccountsConfig(AccountConfig):  # type: ignore[misc]  # allauth has no types
    """Without allauth's check for its middleware around every request: only pages pass through it, see
    `octoadmin.http.middleware.AllauthForPagesMiddleware`."""

    def ready(self) -> None:
        from allauth.account import checks  # noqa: F401 -- registers them


class OctoAdminConfig(AdminConfig):
    default_site = "octoadmin.admin_site.OctoAdminSite"
