"""The page for a sign-in that a provider confirmed or cancelled and that is refused here."""

from typing import Literal

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

Reason = Literal[
    "unknown", "unverified", "sign_in_first", "inactive", "connected_elsewhere", "cancelled", "failed", "invite_closed"
]
_STATUS: dict[Reason, int] = {"cancelled": 200, "failed": 502}


def sign_in_refused(request: HttpRequest, reason: Reason, *, provider: str = "") -> HttpResponse:
    context = {"reason": reason, "provider": provider}
    return render(request, "social_accounts/refused.html", context, status=_STATUS.get(reason, 403))
