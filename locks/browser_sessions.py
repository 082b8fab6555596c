"""Django's session engine on the table BrowserSession, which also stores user, origin and last use."""

import hashlib
from datetime import timedelta
from typing import Any

from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore as DatabaseStore
from django.db.models.functions import Now
from django.utils import timezone

from locks.models import BrowserSession

SEEN_INTERVAL = timedelta(minutes=1)
# Sessions that are not signed in expire early, so that they do not accumulate.
ANONYMOUS_LIFETIME = timedelta(hours=1)
MAX_USER_AGENT = 300


class SessionStore(DatabaseStore):
    """`origin` has the address, user agent and sign-in time for a new row; a sign-in sets it before Django creates the
    row."""

    def __init__(self, session_key: str | None = None) -> None:
        super().__init__(session_key)
        self.origin: dict[str, Any] = {}

    @classmethod
    def get_model_class(cls) -> type[BrowserSession]:
        return BrowserSession

    def set_origin(self, *, address: str | None, user_agent: str) -> None:
        self.origin = {"address": address, "user_agent": user_agent.replace("\0", "")[:MAX_USER_AGENT]}

    def load(self) -> dict[str, Any]:
        row = BrowserSession.objects.filter(
            session_key=digest(self.session_key or ""), expire_date__gt=timezone.now()
        ).first()
        if row is None:
            self._session_key = None
            return {}
        # Django gives the session a new key after a change of password; the new row keeps the origin.
        self.origin = {name: getattr(row, name) for name in ("address", "user_agent", "signed_in_at")}
        if row.user_id is not None and timezone.now() - row.seen_at > SEEN_INTERVAL:
            BrowserSession.objects.filter(pk=row.pk, seen_at__lt=Now() - SEEN_INTERVAL).update(seen_at=Now())
        contents: dict[str, Any] = self.decode(row.session_data)
        return contents

    def create_model_instance(self, data: dict[str, Any]) -> BrowserSession:
        user_id = data.get(SESSION_KEY)
        expires = self.get_expiry_date()
        return BrowserSession(
            session_key=digest(self._get_or_create_session_key()),  # type: ignore[attr-defined]  # not in the stubs
            session_data=self.encode(data),
            expire_date=expires if user_id else min(expires, timezone.now() + ANONYMOUS_LIFETIME),
            user_id=int(user_id) if user_id else None,
            **self.origin,
        )

    def exists(self, session_key: str) -> bool:
        return BrowserSession.objects.filter(session_key=digest(session_key)).exists()

    def delete(self, session_key: str | None = None) -> None:
        key = session_key or self.session_key
        if key is not None:
            BrowserSession.objects.filter(session_key=digest(key)).delete()

    @classmethod
    def clear_expired(cls) -> None:
        BrowserSession.objects.filter(expire_date__lt=Now()).delete()


def digest(session_key: str) -> str:
    """Of the cookie, as the table stores it. 160 bits, the length of the column."""
    return hashlib.sha256(session_key.encode()).hexdigest()[:40]
