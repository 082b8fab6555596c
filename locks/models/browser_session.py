"""Django's session with its user, address, user agent and last use, so that the account page can list and end sessions.

The key is a digest of the cookie, so a leaked table gives no access. A session is ended by deleting its row.
"""

from importlib import import_module
from typing import Any

from django.conf import settings
from django.contrib.postgres.functions import RandomUUID
from django.contrib.sessions.base_session import AbstractBaseSession
from django.db import models
from django.db.models.functions import Now


class BrowserSession(AbstractBaseSession):
    # Names the session on pages, which must not show its key.
    public_id = models.UUIDField(db_default=RandomUUID(), unique=True, editable=False)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, related_name="browser_sessions"
    )
    # Of the request that started the session.
    address = models.GenericIPAddressField(null=True)
    user_agent = models.TextField(default="")
    signed_in_at = models.DateTimeField(db_default=Now())
    # Written at most once a minute.
    seen_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "octo_browser_session"

    def __str__(self) -> str:
        return f"{self.user or 'anonymous'} from {self.address or 'an unknown address'}"

    @classmethod
    def get_session_store_class(cls) -> Any:
        return import_module(settings.SESSION_ENGINE).SessionStore

    # Django's store passes these three arguments only.
    def save(self, *, force_insert: bool = False, force_update: bool = False, using: str | None = None) -> None:  # type: ignore[override]
        """An update by the session store leaves `seen_at` alone: it is written separately."""
        changed = ("session_data", "expire_date", "user") if force_update else None
        super().save(force_insert=force_insert, force_update=force_update, using=using, update_fields=changed)
