"""Sign-in through an identity provider, and connecting one to an account."""

from collections.abc import Callable
from typing import Any

import structlog
from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.models import SocialAccount
from allauth.socialaccount.providers.base.constants import AuthProcess
from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe
from requests import RequestException

from locks.dashboard.access import actor, current_user, login_required
from locks.dashboard.reauthentication.flow import recently_confirmed
from locks.dashboard.rendering import safe_next_url
from locks.dashboard.social_accounts.refusal import sign_in_refused
from locks.models import User
from locks.services import social_accounts as service
from locks.services.mfa import Kind, factors_of

_log = structlog.stdlib.get_logger(__name__)


@never_cache
@require_POST
def sign_in(request: HttpRequest, name: str) -> HttpResponse:
    # The page of an invitation has put it into the session.
    invite = request.session.get("invite") if request.POST.get("invited") else None
    return _redirect_to_provider(request, name, AuthProcess.LOGIN, {} if invite is None else {"invite": invite})


@require_POST
@login_required
@recently_confirmed
def connect(request: HttpRequest, name: str) -> HttpResponse:
    return _redirect_to_provider(request, name, AuthProcess.CONNECT, {"user": current_user(request).pk})


@require_POST
@login_required
@recently_confirmed
def disconnect(request: HttpRequest, connection_id: int) -> HttpResponse:
    user = current_user(request)
    account = SocialAccount.objects.filter(user=user, pk=connection_id).first()
    if account is None:
        raise Http404
    if not _has_other_sign_in_method(user, account):
        messages.error(request, "This is your only sign-in method. Set a password or a passkey first.")
        return redirect("dashboard:account")
    name = str(account.provider)
    service.disconnect(actor=actor(request), account=account, provider=name)
    messages.success(request, f"{settings.PROVIDERS.get(name, name)} disconnected.")
    return redirect("dashboard:account")


@never_cache
@require_safe
def github_callback(request: HttpRequest) -> HttpResponse:
    if "github" not in settings.PROVIDERS:
        raise Http404
    from allauth.socialaccount.providers.github.views import oauth2_callback

    return _complete(request, "github", lambda: oauth2_callback(request))


@never_cache
@require_safe
def openid_callback(request: HttpRequest, provider_id: str) -> HttpResponse:
    if provider_id != "openid" or "openid" not in settings.PROVIDERS:
        raise Http404
    from allauth.socialaccount.providers.openid_connect.views import callback

    return _complete(request, "openid", lambda: callback(request, provider_id=provider_id))


def _redirect_to_provider(request: HttpRequest, name: str, process: str, state: dict[str, Any]) -> HttpResponse:
    if name not in settings.PROVIDERS:
        raise Http404
    # A signed-in user comes here to reauthenticate, so the provider must not rely on its own session.
    again = {"auth_params": {"prompt": "login"}} if request.user.is_authenticated and name == "openid" else {}
    try:
        response = get_adapter().get_provider(request, name).redirect(
            request, process, next_url=safe_next_url(request, request.POST.get("next")), data=state, **again
        )  # fmt: skip
    except (RequestException, ValueError, KeyError):
        return sign_in_refused(request, "failed", provider=settings.PROVIDERS[name])
    if not isinstance(response, HttpResponseRedirect):
        return response  # type: ignore[no-any-return]
    # Not an HTTP redirect: the content security policy lets forms lead to our own pages only.
    context = {"provider": settings.PROVIDERS[name], "url": response.url}
    return render(request, "social_accounts/redirect.html", context)


def _complete(request: HttpRequest, name: str, complete: Callable[[], HttpResponse]) -> HttpResponse:
    """An answer of the provider that cannot be parsed is a failed sign-in, not an error of this server."""
    try:
        return complete()
    except (RequestException, ValueError, KeyError, TypeError):
        _log.warning("invalid answer of a provider", provider=name, exc_info=True)
        return sign_in_refused(request, "failed", provider=settings.PROVIDERS[name])


def _has_other_sign_in_method(user: User, account: SocialAccount) -> bool:
    return (
        user.has_usable_password()
        or SocialAccount.objects.filter(user=user, provider__in=settings.PROVIDERS).exclude(pk=account.pk).exists()
        or factors_of(user).filter(type=Kind.WEBAUTHN).exists()
    )
