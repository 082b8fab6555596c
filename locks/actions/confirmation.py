"""Proving again that it is you: sensitive acts want a proof that is fresh.

Signing in counts as one. When the proof was given stands in the session, so that each browser has its own.
"""

import time
from typing import Any

from django.contrib.auth.signals import user_logged_in
from django.db import transaction
from django.dispatch import receiver
from django.http import HttpRequest

from locks.actions.audit import Actor, record
from locks.models import EventKind, User

FRESH_SECONDS = 15 * 60
_KEY = "confirmed_at"


@receiver(user_logged_in)
def remember(sender: Any, request: HttpRequest, **_: Any) -> None:
    request.session[_KEY] = int(time.time())


def is_fresh(request: HttpRequest) -> bool:
    at = request.session.get(_KEY)
    # A proof from the future is none: clocks are set back sometimes.
    return isinstance(at, int) and 0 <= time.time() - at < FRESH_SECONDS


@transaction.atomic
def confirm_by_password(*, request: HttpRequest, user: User, password: str, actor: Actor) -> bool:
    right = bool(password) and user.check_password(password)
    record(EventKind.CONFIRMED if right else EventKind.CONFIRMATION_FAILED, actor=actor, detail={"method": "password"})
    if right:
        remember(sender=User, request=request)
    return right
