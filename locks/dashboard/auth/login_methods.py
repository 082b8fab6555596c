"""The other ways in: a passkey instead of a password, a provider, and the second step after either."""

from collections.abc import Callable
from typing import Any

import structlog
from allauth.account.stages import LoginStageController
from allauth.mfa.base.internal.flows import post_authentication
from allauth.mfa.models import Authenticator
from allauth.mfa.stages import AuthenticateStage
from allauth.mfa.webauthn.forms import LoginWebAuthnForm
from allauth.mfa.webauthn.internal.auth import begin_authentication
from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.providers.base.constants import AuthProcess
from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from requests import RequestException

from locks.dashboard.access import actor_of, current_user
from locks.dashboard.auth.credentials import is_readable, passkey_of, plain
from locks.dashboard.auth.login_start import begin, login_methods
from locks.dashboard.auth.refusal import refusal
from locks.dashboard.rendering import safe_next_url, throttled
from locks.models import EventKind, User
from locks.services import login_throttle
from locks.services.audit import record
from locks.services.mfa import Kind, factors_of, use_code

_log = structlog.stdlib.get_logger(__name__)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def passkey(request: HttpRequest) -> HttpResponse:
    """GET: what the browser is to sign. POST: what it has signed, with whichever passkey the current_user chose."""
    if not settings.PASSKEYS:
        raise Http404
    if request.method != "POST":
        return JsonResponse(plain(begin_authentication()))
    back = safe_next_url(request, request.POST.get("next"))
    form = LoginWebAuthnForm(data=request.POST) if is_readable(request.POST.get("credential", "")) else None
    if form is None or not form.is_valid():
        return render(request, "auth/page.html", {**login_methods(), "next": back, "passkey_failed": True}, status=422)
    authenticator = form.cleaned_data["credential"]
    authenticator.record_usage()
    return begin(
        request, authenticator.user, method="mfa", back=back, id=authenticator.pk, type="webauthn", passwordless=True
    )


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def second_step(request: HttpRequest) -> HttpResponse:
    """After the password or the provider, for people who have a second factor."""
    if not (settings.ONE_TIME_CODES or settings.PASSKEYS):
        raise Http404
    stage = LoginStageController.enter(request, AuthenticateStage.key)
    user = stage.login.user if stage else None
    if stage is None or not isinstance(user, User):
        return redirect("dashboard:sign-in")
    kinds = set(factors_of(user).values_list("type", flat=True))
    context: dict[str, Any] = {"has_passkey": Kind.WEBAUTHN in kinds, "has_codes": Kind.TOTP in kinds, "person": user}
    if request.method != "POST":
        return render(request, "auth/second_step.html", context)
    actor = actor_of(request, user)
    try:
        tried = login_throttle.check(
            scope=login_throttle.ThrottleScope.CODE, subject=str(user.pk), user=user, actor=actor
        )
    except login_throttle.TooMany as refused:
        return throttled(request, refused, "auth/second_step.html", context)
    factor = _prove(request, user)
    if factor is None:
        record(EventKind.SIGN_IN_FAILED, actor=actor, detail={"method": "second_factor"})
        return render(request, "auth/second_step.html", {**context, "failed": True}, status=422)
    login_throttle.reset(tried)
    post_authentication(request, factor)
    response: HttpResponse = stage.exit()
    return response


@never_cache
@require_safe
def second_step_passkey(request: HttpRequest) -> HttpResponse:
    stage = LoginStageController.enter(request, AuthenticateStage.key) if settings.PASSKEYS else None
    if stage is None or stage.login.user is None:
        raise Http404
    return JsonResponse(plain(begin_authentication(stage.login.user)))


@never_cache
@require_POST
def provider(request: HttpRequest, name: str) -> HttpResponse:
    return leave_for(request, name)


def leave_for(request: HttpRequest, name: str, *, connect: bool = False) -> HttpResponse:
    """On the way to a provider; to sign in, or to connect it to whoever is signed in."""
    if name not in settings.PROVIDERS:
        raise Http404
    data: dict[str, Any] = {"user": current_user(request).pk} if connect else {}
    # The page that invites has noted which invitation it was opened with.
    if not connect and request.POST.get("invited") and "invite" in request.session:
        data["invite"] = request.session["invite"]
    # Somebody who is signed in is here to prove it again; the provider is not to take its own word for it.
    again = {"auth_params": {"prompt": "login"}} if request.user.is_authenticated and name == "openid" else {}
    try:
        response = get_adapter().get_provider(request, name).redirect(
            request, AuthProcess.CONNECT if connect else AuthProcess.LOGIN,
            next_url=safe_next_url(request, request.POST.get("next")), data=data, **again,
        )  # fmt: skip
    except (RequestException, ValueError, KeyError):
        return refusal(request, "failed", provider=settings.PROVIDERS[name])
    if not isinstance(response, HttpResponseRedirect):
        return response  # type: ignore[no-any-return]
    # Not a redirect: the content security policy lets forms lead to our own pages only.
    context = {"provider": settings.PROVIDERS[name], "url": response.url}
    return render(request, "auth/leaving.html", context)


@never_cache
@require_safe
def github_callback(request: HttpRequest) -> HttpResponse:
    if "github" not in settings.PROVIDERS:
        raise Http404
    from allauth.socialaccount.providers.github.views import oauth2_callback

    return _back_from(request, "github", lambda: oauth2_callback(request))


@never_cache
@require_safe
def openid_callback(request: HttpRequest, provider_id: str) -> HttpResponse:
    if provider_id != "openid" or "openid" not in settings.PROVIDERS:
        raise Http404
    from allauth.socialaccount.providers.openid_connect.views import callback

    return _back_from(request, "openid", lambda: callback(request, provider_id=provider_id))


def _back_from(request: HttpRequest, name: str, complete: Callable[[], HttpResponse]) -> HttpResponse:
    """Whatever a provider says that cannot be read is a failure of its own."""
    try:
        return complete()
    except (RequestException, ValueError, KeyError, TypeError):
        _log.warning("a provider's answer could not be read", provider=name, exc_info=True)
        return refusal(request, "failed", provider=settings.PROVIDERS[name])


def _prove(request: HttpRequest, user: User) -> Authenticator | None:
    """The factor that what was posted proves."""
    if credential := request.POST.get("credential"):
        return passkey_of(user, credential)
    return use_code(user=user, code=request.POST.get("code", "")[:40])
