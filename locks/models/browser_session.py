"""A browser in which somebody is signed in, or on the way to: Django's session, with what its owner wants to know.

The key is a digest of what the browser keeps in its cookie, so whoever reads the table can be nobody. Ending a session
is deleting its row.
"""

from typing import Any

from django.conf import settings
from django.contrib.postgres.functions import RandomUUID
from django.contrib.sessions.base_session import AbstractBaseSession
from django.db import models
from django.db.models.functions import Now


class BrowserSession(AbstractBaseSession):
    # What a page calls it by.
    public_id = models.UUIDField(db_default=RandomUUID(), unique=True, editable=False)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, related_name="browser_sessions"
    )
    # Where it began.
    address = models.GenericIPAddressField(null=True)
    user_agent = models.TextField(default="")
    signed_in_at = models.DateTimeField(db_default=Now())
    # Written at most once a minute.
    seen_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "octo_browser_session"

    def __str__(self) -> str:
        return f"{self.user or 'nobody'} from {self.address or 'an unknown address'}"

    @classmethod
    def get_session_store_class(cls) -> Any:
        from locks.browser_sessions import SessionStore

        return SessionStore

    def save(self, *, force_insert: bool = False, force_update: bool = False, using: str | None = None) -> None:  # type: ignore[override]
        """What the store saves is what the session contains; when it was seen is written elsewhere."""
        changed = ("session_data", "expire_date", "user") if force_update else None
        super().save(force_insert=force_insert, force_update=force_update, using=using, update_fields=changed)
