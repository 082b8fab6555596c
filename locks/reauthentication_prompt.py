"""Asks for a password, passkey or code before a sensitive action, and then continues the interrupted request.

If the last proof is older than fifteen minutes, the answer is a form: a page, or a fragment if htmx asks, which then
opens as a dialog. The form carries the posted fields along, so that nothing typed is lost: with a valid proof the
same request goes through. Do not use it on views that receive secrets; those ask for the password themselves.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render

from locks.http_requests import current_user, is_htmx_target, parse_url
from locks.models import User
from locks.services import reauthentication
from locks.services.audit import Actor
from locks.services.credentials import passkey_of, providers_of
from locks.services.login_throttle import TooMany
from locks.services.mfa import Kind, factors_of, use_code

# Fields of the prompt; all others belong to the interrupted form.
PROOFS = ("confirm_password", "confirm_code", "confirm_credential")
OWN_FIELDS = (*PROOFS, "confirm_next", "csrfmiddlewaretoken")

RenderPage = Callable[[HttpRequest, dict[str, Any]], HttpResponse]


def render_page(request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
    return render(request, "reauthentication/page.html", context, status=403)


def require_reauthentication(request: HttpRequest, *, render_page: RenderPage = render_page) -> HttpResponse | None:
    """The form that asks for a proof; None if none is needed."""
    if request.method != "POST" or not any(name in request.POST for name in PROOFS):
        return None if reauthentication.is_fresh(request) else prompt(request, render_page=render_page)
    posted = request.POST
    interrupted = posted.copy()
    for name in OWN_FIELDS:
        interrupted.pop(name, None)
    request.POST = interrupted  # type: ignore[assignment]  # mutable, but of the same class
    if reauthentication.is_fresh(request):
        return None
    outcome = confirm(request, posted)
    return None if outcome.is_verified else prompt(request, outcome=outcome, render_page=render_page)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result of a proof. If `wait_seconds` is set, it was throttled and not verified."""

    is_verified: bool = False
    wait_seconds: int = 0


def confirm(request: HttpRequest, fields: Mapping[str, str]) -> Outcome:
    """Verifies a passkey, the password, or a code for users without a password."""
    user = current_user(request)
    if credential := fields.get("confirm_credential"):
        method, verify = "passkey", lambda: passkey_of(user, credential) is not None
    elif user.has_usable_password():
        password = fields.get("confirm_password", "")
        method, verify = "password", lambda: bool(password) and user.check_password(password)
    else:
        code = fields.get("confirm_code", "")[:40]
        method, verify = "code", lambda: use_code(user=user, code=code) is not None
    try:
        verified = reauthentication.confirm(
            request=request, user=user, actor=Actor.of_request(request), method=method, verify=verify
        )
    except TooMany as throttled:
        return Outcome(wait_seconds=throttled.seconds)
    return Outcome(is_verified=verified)


def prompt(
    request: HttpRequest,
    *,
    outcome: Outcome | None = None,
    back: str | None = None,
    render_page: RenderPage = render_page,
) -> HttpResponse:
    """The form. It is posted to the URL of the interrupted form, or to the page of its own if nothing was posted."""
    posted = request.method == "POST" and back is None
    context = {
        "action": request.get_full_path() if posted else None,
        "back": back or request.get_full_path(),
        # After signing in again the posted fields are lost, so that leads to the page with the form.
        "again": _shown_page(request) if posted else back or request.get_full_path(),
        "carried": _fields(request.POST) if posted else [],
        # Outside of the dialog it is sent as a plain form, which every view can answer.
        "in_dialog": is_htmx_target(request, "dialog"),
        "failed": outcome is not None and not outcome.wait_seconds,
        "wait_seconds": outcome.wait_seconds if outcome else 0,
        **_available_proofs(current_user(request)),
    }
    if request.headers.get("HX-Request") == "true":
        response = render(request, "reauthentication/dialog.html", context)
        response["HX-Retarget"], response["HX-Reswap"] = "#dialog", "innerHTML"
        return response
    return render_page(request, context)


def _fields(posted: QueryDict) -> list[tuple[str, str]]:
    return [(name, str(value)) for name, values in posted.lists() for value in values if name not in OWN_FIELDS]


def _available_proofs(user: User) -> dict[str, Any]:
    """The proofs that the user can give. Users who have none of them sign in with their provider again."""
    has_password = user.has_usable_password()
    kinds = set(factors_of(user).values_list("type", flat=True)) if settings.MFA_SUPPORTED_TYPES else set()
    proofs: dict[str, Any] = {
        "has_password": has_password,
        "has_passkey": Kind.WEBAUTHN in kinds,
        "has_codes": not has_password and Kind.TOTP in kinds,
    }
    return proofs if any(proofs.values()) else {**proofs, "providers": providers_of(user)}


def _shown_page(request: HttpRequest) -> str:
    return parse_url(request.headers.get("HX-Current-URL") or request.headers.get("Referer") or "").path
