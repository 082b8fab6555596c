"""The first step of a way in: what was proved is noted, and django-allauth decides whether more is to be proved."""

from typing import Any

from allauth.account.internal.flows.login import perform_login, record_authentication
from allauth.account.internal.stagekit import clear_login
from allauth.account.models import Login
from django.conf import settings
from django.http import HttpRequest, HttpResponse

from locks.models import User


def begin(request: HttpRequest, user: User, *, method: str, back: str, **detail: Any) -> HttpResponse:
    # What somebody else has begun in this browser is not gone on with.
    clear_login(request)
    record_authentication(request, user, method, **detail)
    response: HttpResponse = perform_login(request, Login(user=user, redirect_url=back))
    return response


def login_methods() -> dict[str, Any]:
    """What the sign-in page offers besides a password."""
    return {"providers": settings.PROVIDERS, "passkeys": settings.PASSKEYS}
