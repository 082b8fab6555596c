"""Asks for the password again before a sensitive action, then continues with the interrupted request.

`recently_confirmed` goes directly above the view, below `space_required` or `login_required`. A user who authenticated
more than fifteen minutes ago gets a form instead of the response: a page, or, if htmx asks, a dialog. The form carries
the posted fields, so with the right password the same request goes through and nothing typed is lost. Not for views
to which secrets are posted: those ask for the password in their own form.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseBase, QueryDict
from django.urls import reverse

from locks.dashboard.access import SpaceContext, View, actor, current_user, parse_url
from locks.dashboard.dialogs import dialog
from locks.dashboard.mfa.passkeys import verify_passkey
from locks.dashboard.reauthentication.forms import MAX_CODE, ConfirmCodeForm, ConfirmPasswordForm
from locks.dashboard.rendering import is_htmx_target
from locks.dashboard.social_accounts.queries import providers_of
from locks.models import User
from locks.services import reauthentication as service
from locks.services.login_throttle import TooMany
from locks.services.mfa import Kind, factors_of, use_code

TITLE = "Confirm it is you"
# Fields of this form; all others belong to the interrupted one.
CREDENTIALS = ("confirm_password", "confirm_code", "confirm_credential")
OWN_FIELDS = (*CREDENTIALS, "confirm_next", "csrfmiddlewaretoken")


def recently_confirmed(view: View) -> View:
    @wraps(view)
    def confirmed(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        space_context = next((argument for argument in args if isinstance(argument, SpaceContext)), None)
        return require_reauthentication(request, space_context) or view(request, *args, **kwargs)

    return confirmed


def require_reauthentication(request: HttpRequest, space_context: SpaceContext | None = None) -> HttpResponse | None:
    """The form that asks, or None if the request may continue."""
    if request.method != "POST" or not any(name in request.POST for name in CREDENTIALS):
        return None if service.is_fresh(request) else ask(request, space_context)
    posted = request.POST
    interrupted = posted.copy()
    for name in OWN_FIELDS:
        interrupted.pop(name, None)
    request.POST = interrupted  # type: ignore[assignment]
    if service.is_fresh(request):
        return None
    result = confirm(request, posted)
    return None if result.is_confirmed else ask(request, space_context, result=result)


@dataclass(frozen=True, kw_only=True)
class Confirmation:
    is_confirmed: bool = False
    # Throttled: the credential was not checked.
    wait_seconds: int = 0


def confirm(request: HttpRequest, posted: Mapping[str, str]) -> Confirmation:
    """Checks a passkey, the password, or a code of users without a password."""
    user = current_user(request)
    if credential := posted.get("confirm_credential"):
        method, is_right = "passkey", lambda: verify_passkey(user, credential) is not None
    elif user.has_usable_password():
        password = posted.get("confirm_password", "")
        method, is_right = "password", lambda: bool(password) and user.check_password(password)
    else:
        code = posted.get("confirm_code", "")[:MAX_CODE]
        method, is_right = "code", lambda: use_code(user=user, code=code) is not None
    try:
        is_confirmed = service.confirm(request=request, user=user, actor=actor(request), method=method, verify=is_right)
    except TooMany as refused:
        return Confirmation(wait_seconds=refused.seconds)
    return Confirmation(is_confirmed=is_confirmed)


def ask(
    request: HttpRequest,
    space_context: SpaceContext | None,
    *,
    result: Confirmation | None = None,
    next_url: str | None = None,
) -> HttpResponse:
    """The form. It posts to the URL of the interrupted POST, or else to its own page, which leads to `next_url`."""
    is_interrupted_post = request.method == "POST" and next_url is None
    next_url = next_url or request.get_full_path()
    context = {
        "action": next_url if is_interrupted_post else reverse("dashboard:confirmation"),
        "next_url": "" if is_interrupted_post else next_url,
        # After signing in again: the page with the form, because the posted fields cannot be kept that long.
        "sign_in_next": _current_page(request) if is_interrupted_post else next_url,
        "carried": _carried_fields(request.POST) if is_interrupted_post else [],
        "failed": result is not None and not result.wait_seconds,
        "wait_seconds": result.wait_seconds if result else 0,
        **_available_credentials(current_user(request)),
    }
    is_htmx = request.headers.get("HX-Request") == "true"
    response = dialog(
        request, space_context, "reauthentication/dialog.html", context,
        title=TITLE, back_url=reverse("dashboard:home"), active_page="confirmation",
        # Outside the dialog the form is sent as a plain one, whose response replaces the page.
        stays_open=is_htmx_target(request, "dialog"), in_dialog=is_htmx, status=403,
    )  # fmt: skip
    if is_htmx:
        response["HX-Retarget"], response["HX-Reswap"] = "#dialog", "innerHTML"
    return response


def _carried_fields(posted: QueryDict) -> list[tuple[str, str]]:
    return [(name, str(value)) for name, values in posted.lists() for value in values if name not in OWN_FIELDS]


def _available_credentials(user: User) -> dict[str, Any]:
    """What the user can confirm with. Without any of these, they sign in at their provider again."""
    kinds = set(factors_of(user).values_list("type", flat=True)) if settings.MFA_SUPPORTED_TYPES else set()
    form = ConfirmPasswordForm() if user.has_usable_password() else ConfirmCodeForm() if Kind.TOTP in kinds else None
    has_passkey = Kind.WEBAUTHN in kinds
    providers = {} if form or has_passkey else providers_of(user)
    return {"form": form, "has_passkey": has_passkey, "providers": providers}


def _current_page(request: HttpRequest) -> str:
    return parse_url(request.headers.get("HX-Current-URL") or request.headers.get("Referer") or "").path
