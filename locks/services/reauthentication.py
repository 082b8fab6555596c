"""Reauthentication: sensitive actions require a proof of identity that is not older than FRESH_SECONDS.

Signing in counts as a proof. Its time is stored in the session, so each browser has its own.
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
def store_proof_time(sender: Any, request: HttpRequest, **_: Any) -> None:
    request.session[_KEY] = int(time.time())


def is_fresh(request: HttpRequest) -> bool:
    confirmed_at = request.session.get(_KEY)
    # After a clock was set back, a time in the future does not count.
    return isinstance(confirmed_at, int) and 0 <= time.time() - confirmed_at < FRESH_SECONDS


def confirm(*, request: HttpRequest, user: User, actor: Actor, method: str, verify: Callable[[], bool]) -> bool:
    """Verifies a proof. Raises TooMany instead after too many attempts."""
    attempt = login_throttle.check(
        scope=login_throttle.ThrottleScope.CONFIRMATION, subject=str(user.pk), user=user, actor=actor
    )
    verified = verify()
    kind = EventKind.CONFIRMED if verified else EventKind.CONFIRMATION_FAILED
    with transaction.atomic():
        record(kind, actor=actor, detail={"method": method})
        if verified:
            login_throttle.reset(attempt)
            store_proof_time(sender=User, request=request)
    return verified
