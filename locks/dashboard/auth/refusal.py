"""The page for whoever a provider vouches for, but does not get in."""

from typing import Literal

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

Because = Literal[
    "unknown", "unverified", "sign_in_first", "switched_off", "somebody_elses", "cancelled", "failed", "invite_over"
]
_STATUS: dict[Because, int] = {"cancelled": 200, "failed": 502}


def refusal(request: HttpRequest, because: Because, *, provider: str = "") -> HttpResponse:
    context = {"because": because, "provider": provider}
    return render(request, "auth/refused.html", context, status=_STATUS.get(because, 403))
