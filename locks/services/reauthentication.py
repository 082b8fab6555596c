"""Proving again that it is you: sensitive acts want a proof that is fresh.

Signing in counts as one. When the proof was given stands in the session, so that each browser has its own.
"""

import time
from collections.abc import Callable
from typing import Any

from django.contrib.auth.signals import user_logged_in
from django.db import transaction
from django.dispatch import receiver
from django.http import HttpRequest

from locks.models import EventKind, User
from locks.services import login_throttle
from locks.services.audit import Actor, record

FRESH_SECONDS = 15 * 60
_KEY = "confirmed_at"


@receiver(user_logged_in)
def remember(sender: Any, request: HttpRequest, **_: Any) -> None:
    request.session[_KEY] = int(time.time())


def is_fresh(request: HttpRequest) -> bool:
    at = request.session.get(_KEY)
    # A proof from the future is none: clocks are set back sometimes.
    return isinstance(at, int) and 0 <= time.time() - at < FRESH_SECONDS


def confirm(*, request: HttpRequest, user: User, actor: Actor, method: str, is_right: Callable[[], bool]) -> bool:
    """Looks at a proof, unless it was tried too often: then it raises TooMany."""
    tried = login_throttle.check(
        gate=login_throttle.ThrottleScope.CONFIRMATION, who=str(user.pk), user=user, actor=actor
    )
    right = is_right()
    with transaction.atomic():
        record(EventKind.CONFIRMED if right else EventKind.CONFIRMATION_FAILED, actor=actor, detail={"method": method})
        if right:
            login_throttle.reset(tried)
            remember(sender=User, request=request)
    return right
