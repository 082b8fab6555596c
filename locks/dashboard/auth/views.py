"""Sign-in with a password or a passkey, the second step, and sign-out."""

from typing import Any

from allauth.account.stages import LoginStageController
from allauth.mfa.base.internal.flows import post_authentication
from allauth.mfa.models import Authenticator
from allauth.mfa.stages import AuthenticateStage
from allauth.mfa.webauthn.forms import LoginWebAuthnForm
from allauth.mfa.webauthn.internal.auth import begin_authentication
from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from locks.dashboard.access import actor, actor_of, request_id
from locks.dashboard.auth.forms import MAX_CODE, SecondStepForm, SignInForm
from locks.dashboard.auth.login import login_methods, start_login
from locks.dashboard.auth.passkey_challenge import discard_challenge, load_challenge, new_challenge, use_once
from locks.dashboard.mfa.passkeys import is_well_formed, to_json, verify_passkey
from locks.dashboard.rendering import safe_next_url, throttled
from locks.models import EventKind, User
from locks.services import login_throttle
from locks.services import sign_in as service
from locks.services.audit import record
from locks.services.mfa import Kind, factors_of, use_code


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in(request: HttpRequest) -> HttpResponse:
    next_url = safe_next_url(request, request.POST.get("next") or request.GET.get("next"))
    form = SignInForm(request.POST if request.method == "POST" else None)
    context: dict[str, Any] = {**login_methods(), "next": next_url, "form": form}
    if request.method != "POST":
        return redirect(next_url) if request.user.is_authenticated else render(request, "auth/page.html", context)
    user = None
    if form.is_valid():
        try:
            user = service.check(request=request, **form.cleaned_data, request_id=request_id(request))
        except login_throttle.TooMany as refused:
            return throttled(request, refused, "auth/page.html", context)
    if user is None:
        return render(request, "auth/page.html", {**context, "failed": True}, status=422)
    return start_login(request, user, method="password", next_url=next_url)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def passkey(request: HttpRequest) -> HttpResponse:
    """GET returns the challenge; POST takes the credential that signed it, of whichever account it belongs to."""
    if not settings.PASSKEYS:
        raise Http404
    if request.method != "POST":
        return new_challenge(request)
    next_url = safe_next_url(request, request.POST.get("next"))
    factor = _passkey_that_signed(request)
    if factor is None:
        context = {**login_methods(), "next": next_url, "form": SignInForm(), "passkey_failed": True}
        return render(request, "auth/page.html", context, status=422)
    return start_login(
        request, factor.user, method="mfa", next_url=next_url, id=factor.pk, type="webauthn", passwordless=True
    )


def _passkey_that_signed(request: HttpRequest) -> Authenticator | None:
    """The passkey that signed the challenge of this browser, if it is the first time."""
    if not is_well_formed(request.POST.get("credential", "")) or (issued_at := load_challenge(request)) is None:
        return None
    form = LoginWebAuthnForm(data=request.POST)
    is_valid = form.is_valid()
    discard_challenge(request)
    factor: Authenticator | None = form.cleaned_data["credential"] if is_valid else None
    return factor if factor is not None and use_once(factor, issued_at=issued_at) else None


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def second_step(request: HttpRequest) -> HttpResponse:
    """After the password or the provider, for accounts with a second factor."""
    if not (settings.ONE_TIME_CODES or settings.PASSKEYS):
        raise Http404
    stage = LoginStageController.enter(request, AuthenticateStage.key)
    user = stage.login.user if stage else None
    if stage is None or not isinstance(user, User):
        return redirect("dashboard:sign-in")
    kinds = set(factors_of(user).values_list("type", flat=True))
    form = SecondStepForm()
    if Kind.TOTP not in kinds:
        form.fields["code"].label = "Recovery code"
    if Kind.WEBAUTHN not in kinds:
        form.fields["code"].widget.attrs["autofocus"] = True
    context: dict[str, Any] = {"has_passkey": Kind.WEBAUTHN in kinds, "username": user.get_username(), "form": form}
    if request.method != "POST":
        return render(request, "auth/second_step.html", context)
    actor = actor_of(request, user)
    try:
        attempt = login_throttle.check(
            scope=login_throttle.ThrottleScope.CODE, subject=str(user.pk), user=user, actor=actor
        )
    except login_throttle.TooMany as refused:
        return throttled(request, refused, "auth/second_step.html", context)
    factor = _verified_factor(request, user)
    if factor is None:
        record(EventKind.SIGN_IN_FAILED, actor=actor, detail={"method": "second_factor"})
        return render(request, "auth/second_step.html", {**context, "failed": True}, status=422)
    login_throttle.reset(attempt)
    post_authentication(request, factor)
    response: HttpResponse = stage.exit()
    return response


@never_cache
@require_safe
def second_step_passkey(request: HttpRequest) -> HttpResponse:
    stage = LoginStageController.enter(request, AuthenticateStage.key) if settings.PASSKEYS else None
    if stage is None or stage.login.user is None:
        raise Http404
    return JsonResponse(to_json(begin_authentication(stage.login.user)))


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    if request.user.is_authenticated:
        service.sign_out(request=request, actor=actor(request))
    return redirect("dashboard:sign-in")


def _verified_factor(request: HttpRequest, user: User) -> Authenticator | None:
    if credential := request.POST.get("credential"):
        return verify_passkey(user, credential)
    return use_code(user=user, code=request.POST.get("code", "")[:MAX_CODE])
