"""Where Django keeps the sessions of browsers: a table that also says whose each is, from where and when last seen."""

import hashlib
from datetime import timedelta
from typing import Any

from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore as DatabaseStore
from django.db.models.functions import Now
from django.utils import timezone

from locks.models import BrowserSession

SEEN_EVERY = timedelta(minutes=1)
# Somebody who has not signed in has an hour to do so; what is begun here by strangers does not pile up.
ANONYMOUS = timedelta(hours=1)
MAX_AGENT = 300


class SessionStore(DatabaseStore):
    """`origin` is what a new row says of where it began; a sign-in sets it before Django makes the row."""

    def __init__(self, session_key: str | None = None) -> None:
        super().__init__(session_key)
        self.origin: dict[str, Any] = {}

    @classmethod
    def get_model_class(cls) -> type[BrowserSession]:
        return BrowserSession

    def begin_at(self, *, address: str | None, user_agent: str) -> None:
        self.origin = {"address": address, "user_agent": user_agent.replace("\0", "")[:MAX_AGENT]}

    def load(self) -> dict[str, Any]:
        row = BrowserSession.objects.filter(
            session_key=digest(self.session_key or ""), expire_date__gt=timezone.now()
        ).first()
        if row is None:
            self._session_key = None
            return {}
        # A new key for the same session, as after a change of password, stays where it was.
        self.origin = {name: getattr(row, name) for name in ("address", "user_agent", "signed_in_at")}
        if row.user_id is not None and timezone.now() - row.seen_at > SEEN_EVERY:
            seen_before = BrowserSession.objects.filter(pk=row.pk, seen_at__lt=Now() - SEEN_EVERY)
            seen_before.update(seen_at=Now())
        contents: dict[str, Any] = self.decode(row.session_data)
        return contents

    def create_model_instance(self, data: dict[str, Any]) -> BrowserSession:
        user_id = data.get(SESSION_KEY)
        expires = self.get_expiry_date()
        return BrowserSession(
            session_key=digest(self._get_or_create_session_key()),  # type: ignore[attr-defined]
            session_data=self.encode(data),
            expire_date=expires if user_id else min(expires, timezone.now() + ANONYMOUS),
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
    """What the table knows a cookie by. As long as its column: 160 bits."""
    return hashlib.sha256(session_key.encode()).hexdigest()[:40]
