"""Setting up second factors and taking them away, and the codes for the day when they are lost."""

from typing import Any

from allauth.mfa.adapter import get_adapter
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import clear_totp_secret, get_totp_secret
from allauth.mfa.webauthn.forms import AddWebAuthnForm
from allauth.mfa.webauthn.internal.auth import begin_registration
from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from locks.dashboard.access import actor, current_user, login_required
from locks.dashboard.account.qr_code import qr_code
from locks.dashboard.auth.credentials import is_readable, plain
from locks.dashboard.reauthentication.flow import recently_confirmed
from locks.dashboard.rendering import throttled
from locks.services import login_throttle, mfa
from locks.services.mfa import Kind, factors_of, matching_counter


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
@recently_confirmed
def codes(request: HttpRequest) -> HttpResponse:
    """The secret for the app, once; it counts when a code of it was typed."""
    user = current_user(request)
    if not settings.ONE_TIME_CODES:
        raise Http404
    if factors_of(user).filter(type=Kind.TOTP).exists():
        return redirect("dashboard:account")
    secret = get_totp_secret(regenerate=request.method != "POST")
    picture = qr_code(get_adapter().build_totp_url(user, secret))
    context: dict[str, Any] = {"secret": secret, "picture": picture, "here": "account"}
    if request.method != "POST":
        return render(request, "account/codes.html", context)
    try:
        tried = login_throttle.check(
            scope=login_throttle.ThrottleScope.CODE, subject=str(user.pk), user=user, actor=actor(request)
        )
    except login_throttle.TooMany as refused:
        return throttled(request, refused, "account/codes.html", context)
    if matching_counter(secret, request.POST.get("code", "").replace(" ", "")[:20]) is None:
        return render(request, "account/codes.html", {**context, "failed": True}, status=422)
    login_throttle.reset(tried)
    clear_totp_secret(request)
    shown = mfa.add_totp(actor=actor(request), user=user, secret=secret)
    return _done(request, "One-time codes are on.", shown)


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
@recently_confirmed
def passkeys(request: HttpRequest) -> HttpResponse:
    user = current_user(request)
    if not settings.PASSKEYS:
        raise Http404
    if request.headers.get("Accept") == "application/json":
        return JsonResponse(plain(begin_registration(user, passwordless=True)))
    context: dict[str, Any] = {"here": "account"}
    if request.method != "POST":
        return render(request, "account/passkey.html", context)
    form = AddWebAuthnForm(user=user, data={**request.POST.dict(), "passwordless": "on"})
    full = factors_of(user).filter(type=Kind.WEBAUTHN).count() >= mfa.MAX_PASSKEYS
    if full or not is_readable(request.POST.get("credential", "")) or not form.is_valid():
        return render(request, "account/passkey.html", {**context, "failed": True}, status=422)
    name = request.POST.get("name", "").strip()[: mfa.MAX_NAME] or "Passkey"
    shown = mfa.add_passkey(actor=actor(request), user=user, name=name, credential=form.cleaned_data["credential"])
    return _done(request, f"The passkey {name} is set up.", shown)


@require_POST
@login_required
@recently_confirmed
def remove(request: HttpRequest, factor_id: int) -> HttpResponse:
    user = current_user(request)
    factor: Authenticator | None = factors_of(user).exclude(type=Kind.RECOVERY_CODES).filter(pk=factor_id).first()
    if factor is None:
        raise Http404
    mfa.remove(actor=actor(request), user=user, factor=factor)
    messages.success(request, "It is removed.")
    return redirect("dashboard:account")


@require_POST
@login_required
@recently_confirmed
def recovery_codes(request: HttpRequest) -> HttpResponse:
    user = current_user(request)
    if not mfa.has_second_factor(user):
        raise Http404
    shown = mfa.make_recovery_codes(actor=actor(request), user=user)
    return _done(request, "The old recovery codes work no more.", shown)


def _done(request: HttpRequest, what: str, shown: list[str]) -> HttpResponse:
    """Recovery codes are in this answer, and never again in another."""
    if shown:
        return render(request, "account/recovery_codes.html", {"what": what, "codes": shown, "here": "account"})
    messages.success(request, what)
    return redirect("dashboard:account")
