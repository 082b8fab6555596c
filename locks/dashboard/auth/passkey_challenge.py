"""The challenge of a sign-in with a passkey, in a signed cookie: a request of a visitor writes no row.

A challenge works once: it must be newer than the last use of the passkey that signed it.
"""

from datetime import datetime, timedelta
from typing import Any

from allauth.mfa.models import Authenticator
from allauth.mfa.webauthn.internal.auth import STATE_SESSION_KEY, begin_authentication
from django.core import signing
from django.db.models import Q
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone

from locks.dashboard.mfa.passkeys import to_json

COOKIE = "passkey_challenge"
MAX_AGE = timedelta(minutes=5)
_SALT = "octoadmin.passkey_challenge"


def new_challenge(request: HttpRequest) -> HttpResponse:
    response = JsonResponse(to_json(begin_authentication()))
    challenge = {"state": request.session.pop(STATE_SESSION_KEY), "issued_at": timezone.now().isoformat()}
    response.set_cookie(
        COOKIE, signing.dumps(challenge, salt=_SALT), max_age=MAX_AGE, path=request.path, httponly=True, samesite="Lax"
    )
    return response


def load_challenge(request: HttpRequest) -> datetime | None:
    """Puts the challenge where the library looks for it, and returns when it was issued; None if there is none."""
    try:
        challenge: dict[str, Any] = signing.loads(request.COOKIES.get(COOKIE, ""), salt=_SALT, max_age=MAX_AGE)
    except signing.BadSignature:
        return None
    request.session[STATE_SESSION_KEY] = challenge["state"]
    return datetime.fromisoformat(challenge["issued_at"])


def discard_challenge(request: HttpRequest) -> None:
    request.session.pop(STATE_SESSION_KEY, None)


def use_once(factor: Authenticator, *, issued_at: datetime) -> bool:
    """Of two requests with the same challenge, one is refused."""
    unused = Authenticator.objects.filter(Q(last_used_at=None) | Q(last_used_at__lt=issued_at), pk=factor.pk)
    return bool(unused.update(last_used_at=timezone.now()))
