"""Accounts at providers: connected to one's own, and taken away again."""

from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from locks.dashboard.access import actor, current_user, login_required
from locks.dashboard.auth.login_methods import leave_for
from locks.dashboard.reauthentication.flow import recently_confirmed
from locks.models import User
from locks.services import social_accounts
from locks.services.mfa import Kind, factors_of


@require_POST
@login_required
@recently_confirmed
def connect(request: HttpRequest, name: str) -> HttpResponse:
    return leave_for(request, name, connect=True)


@require_POST
@login_required
@recently_confirmed
def disconnect(request: HttpRequest, connection_id: int) -> HttpResponse:
    user = current_user(request)
    account = SocialAccount.objects.filter(user=user, pk=connection_id).first()
    if account is None:
        raise Http404
    if not _has_another_way_in(user, account):
        messages.error(request, "That is your only way in. Set a password or a passkey first.")
        return redirect("dashboard:account")
    name = str(account.provider)
    social_accounts.disconnect(actor=actor(request), account=account, provider=name)
    messages.success(request, f"{settings.PROVIDERS.get(name, name)} is disconnected.")
    return redirect("dashboard:account")


def _has_another_way_in(user: User, account: SocialAccount) -> bool:
    return (
        user.has_usable_password()
        or SocialAccount.objects.filter(user=user, provider__in=settings.PROVIDERS).exclude(pk=account.pk).exists()
        or factors_of(user).filter(type=Kind.WEBAUTHN).exists()
    )
