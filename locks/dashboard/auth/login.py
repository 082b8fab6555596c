"""The start of a login: records what was verified; django-allauth then decides whether a second step follows."""

from typing import Any

from allauth.account.internal.flows.login import perform_login, record_authentication
from allauth.account.internal.stagekit import clear_login
from allauth.account.models import Login
from django.conf import settings
from django.http import HttpRequest, HttpResponse

from locks.models import User


def start_login(request: HttpRequest, user: User, *, method: str, next_url: str, **detail: Any) -> HttpResponse:
    # A login that another account left unfinished in this browser does not continue.
    clear_login(request)
    record_authentication(request, user, method, **detail)
    response: HttpResponse = perform_login(request, Login(user=user, redirect_url=next_url))
    return response


def login_methods() -> dict[str, Any]:
    """What the sign-in page offers besides a password."""
    return {"providers": settings.PROVIDERS, "passkeys": settings.PASSKEYS}
