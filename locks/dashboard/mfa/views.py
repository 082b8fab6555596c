"""Second factors of an account: one-time codes, passkeys and recovery codes."""

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
from locks.dashboard.form_rendering import form_status
from locks.dashboard.mfa.forms import PasskeyForm, TotpForm
from locks.dashboard.mfa.passkeys import is_well_formed, to_json
from locks.dashboard.mfa.qr_code import qr_code
from locks.dashboard.reauthentication.flow import recently_confirmed
from locks.dashboard.rendering import throttled
from locks.services import login_throttle
from locks.services import mfa as service
from locks.services.mfa import Kind, factors_of, matching_counter


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
@recently_confirmed
def totp(request: HttpRequest) -> HttpResponse:
    """Shows the secret for the authenticator app. The factor exists once a code of it was entered."""
    user = current_user(request)
    if not settings.ONE_TIME_CODES:
        raise Http404
    if factors_of(user).filter(type=Kind.TOTP).exists():
        return redirect("dashboard:account")
    form = TotpForm(request.POST if request.method == "POST" else None)
    secret = get_totp_secret(regenerate=not form.is_bound)
    context = {"form": form, "secret": secret, "qr_code": qr_code(get_adapter().build_totp_url(user, secret))}
    if form.is_valid():
        try:
            attempt = login_throttle.check(
                scope=login_throttle.ThrottleScope.CODE, subject=str(user.pk), user=user, actor=actor(request)
            )
        except login_throttle.TooMany as refused:
            return throttled(request, refused, "mfa/totp.html", context)
        counter = matching_counter(secret, form.cleaned_data["code"])
        if counter is not None:
            login_throttle.reset(attempt)
            clear_totp_secret(request)
            recovery_codes = service.add_totp(actor=actor(request), user=user, secret=secret, counter=counter)
            return _set_up(request, "One-time codes are on.", recovery_codes)
        form.add_error("code", "Incorrect code. Check that the clock of your phone is right.")
    return render(request, "mfa/totp.html", context, status=form_status(form))


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
@recently_confirmed
def passkeys(request: HttpRequest) -> HttpResponse:
    user = current_user(request)
    if not settings.PASSKEYS:
        raise Http404
    if request.headers.get("Accept") == "application/json":
        return JsonResponse(to_json(begin_registration(user, passwordless=True)))
    form = PasskeyForm(request.POST if request.method == "POST" else None)
    if form.is_valid():
        registration = AddWebAuthnForm(user=user, data={**request.POST.dict(), "passwordless": "on"})
        if factors_of(user).filter(type=Kind.WEBAUTHN).count() >= service.MAX_PASSKEYS:
            form.add_error(None, f"You have {service.MAX_PASSKEYS} passkeys already. Remove one first.")
        elif not is_well_formed(request.POST.get("credential", "")) or not registration.is_valid():
            form.add_error(None, "The passkey could not be registered. Try again.")
        else:
            name = form.cleaned_data["name"]
            credential = registration.cleaned_data["credential"]
            recovery_codes = service.add_passkey(actor=actor(request), user=user, name=name, credential=credential)
            return _set_up(request, f"The passkey {name} is set up.", recovery_codes)
    return render(request, "mfa/passkey.html", {"form": form}, status=form_status(form))


@require_POST
@login_required
@recently_confirmed
def remove(request: HttpRequest, factor_id: int) -> HttpResponse:
    user = current_user(request)
    factor: Authenticator | None = factors_of(user).exclude(type=Kind.RECOVERY_CODES).filter(pk=factor_id).first()
    if factor is None:
        raise Http404
    service.remove(actor=actor(request), user=user, factor=factor)
    messages.success(request, "Second factor removed.")
    return redirect("dashboard:account")


@require_POST
@login_required
@recently_confirmed
def recovery_codes(request: HttpRequest) -> HttpResponse:
    user = current_user(request)
    if not service.has_second_factor(user):
        raise Http404
    codes = service.make_recovery_codes(actor=actor(request), user=user)
    return _set_up(request, "The old recovery codes no longer work.", codes)


def _set_up(request: HttpRequest, message: str, recovery_codes: list[str]) -> HttpResponse:
    """New recovery codes are in this response and never in another."""
    if recovery_codes:
        return render(request, "mfa/recovery_codes.html", {"message": message, "codes": recovery_codes})
    messages.success(request, message)
    return redirect("dashboard:account")
