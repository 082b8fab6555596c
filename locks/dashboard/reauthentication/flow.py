"""Asks who is there once more before a sensitive act, and then goes on with what was asked.

`recently_confirmed` goes right above the view, under `in_space` or `signed_in`. Somebody whose last proof is older than
fifteen minutes gets a form instead of the answer: a page, or a part of it if htmx asks, which then opens the dialog.
What was posted is carried along in that form, so nothing that was typed is lost: with the right proof the very same
request goes through. Do not put it on a view that is posted secrets; those ask for the password themselves.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseBase, QueryDict
from django.shortcuts import render

from locks.dashboard.access import SpaceContext, View, actor, current_user, parse_url
from locks.dashboard.auth.credentials import passkey_of, providers_of
from locks.dashboard.rendering import is_htmx_target, page
from locks.models import User
from locks.services import reauthentication as proof
from locks.services.login_throttle import TooMany
from locks.services.mfa import Kind, factors_of, use_code

# Fields of the form that asks; everything else in it is what the interrupted form had.
PROOFS = ("confirm_password", "confirm_code", "confirm_credential")
OWN_FIELDS = (*PROOFS, "confirm_next", "csrfmiddlewaretoken")


def recently_confirmed(view: View) -> View:
    @wraps(view)
    def confirmed(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        place = next((argument for argument in args if isinstance(argument, SpaceContext)), None)
        return require_reauthentication(request, place) or view(request, *args, **kwargs)

    return confirmed


def require_reauthentication(request: HttpRequest, place: SpaceContext | None = None) -> HttpResponse | None:
    """For views that want a proof in some cases only: the form that asks, or None if there is no need to."""
    if request.method != "POST" or not any(name in request.POST for name in PROOFS):
        return None if proof.is_fresh(request) else ask(request, place)
    given = request.POST
    interrupted = given.copy()
    for name in OWN_FIELDS:
        interrupted.pop(name, None)
    request.POST = interrupted  # type: ignore[assignment]
    if proof.is_fresh(request):
        return None
    outcome = confirm(request, given)
    return None if outcome.is_right else ask(request, place, outcome=outcome)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of a proof. One that has to wait was not looked at."""

    is_right: bool = False
    wait_seconds: int = 0


def confirm(request: HttpRequest, given: Mapping[str, str]) -> Outcome:
    """With whatever was given: a passkey, the password, or a code for those who have no password."""
    user = current_user(request)
    if credential := given.get("confirm_credential"):
        method, is_right = "passkey", lambda: passkey_of(user, credential) is not None
    elif user.has_usable_password():
        password = given.get("confirm_password", "")
        method, is_right = "password", lambda: bool(password) and user.check_password(password)
    else:
        code = given.get("confirm_code", "")[:40]
        method, is_right = "code", lambda: use_code(user=user, code=code) is not None
    try:
        right = proof.confirm(request=request, user=user, actor=actor(request), method=method, is_right=is_right)
    except TooMany as refused:
        return Outcome(wait_seconds=refused.seconds)
    return Outcome(is_right=right)


def ask(
    request: HttpRequest, place: SpaceContext | None, *, outcome: Outcome | None = None, back: str | None = None
) -> HttpResponse:
    """The form. It is posted to where the interrupted one was posted, or to the page of its own if nothing was."""
    posted = request.method == "POST" and back is None
    context = {
        "action": request.get_full_path() if posted else None,
        "back": back or request.get_full_path(),
        # After signing in again: the page it was asked on, for what was posted cannot wait so long.
        "again": _shown_page(request) if posted else back or request.get_full_path(),
        "carried": _pairs(request.POST) if posted else [],
        # What goes elsewhere than into the dialog is sent on as a plain form, which every view can answer.
        "in_dialog": is_htmx_target(request, "dialog"),
        "failed": outcome is not None and not outcome.wait_seconds,
        "wait_seconds": outcome.wait_seconds if outcome else 0,
        **_ways_to_prove(current_user(request)),
    }
    if request.headers.get("HX-Request") == "true":
        response = render(request, "reauthentication/dialog.html", context)
        response["HX-Retarget"], response["HX-Reswap"] = "#dialog", "innerHTML"
        return response
    if place is None:
        return render(request, "reauthentication/page.html", context, status=403)
    return page(request, place, "reauthentication/page.html", context, active_page="confirmation", status=403)


def _pairs(posted: QueryDict) -> list[tuple[str, str]]:
    return [(name, str(value)) for name, values in posted.lists() for value in values if name not in OWN_FIELDS]


def _ways_to_prove(user: User) -> dict[str, Any]:
    """What somebody has to prove themselves with; to whoever has nothing else, their provider is asked again."""
    has_password = user.has_usable_password()
    kinds = set(factors_of(user).values_list("type", flat=True)) if settings.MFA_SUPPORTED_TYPES else set()
    ways: dict[str, Any] = {
        "has_password": has_password,
        "has_passkey": Kind.WEBAUTHN in kinds,
        "has_codes": not has_password and Kind.TOTP in kinds,
    }
    return ways if any(ways.values()) else {**ways, "providers": providers_of(user)}


def _shown_page(request: HttpRequest) -> str:
    return parse_url(request.headers.get("HX-Current-URL") or request.headers.get("Referer") or "").path
