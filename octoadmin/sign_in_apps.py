"""Django apps under our own terms.

django-allauth's accounts come without its demand for a middleware around every request: only pages go through it
(`octoadmin.serving.middleware.AccountsForPages`), the API has no use for it. The admin console gets our door.
"""

from allauth.account.apps import AccountConfig
from django.contrib.admin.apps import AdminConfig


class Accounts(AccountConfig):  # type: ignore[misc]
    def ready(self) -> None:
        from allauth.account import checks  # noqa: F401 -- registers them


class Console(AdminConfig):
    default_site = "octoadmin.console.Console"
