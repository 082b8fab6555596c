"""The account of whoever is signed in: who they are, their password, where they are signed in."""

from typing import Any
from uuid import UUID

from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.contrib import messages
from django.db import IntegrityError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST, require_safe

from locks.dashboard.access import actor, current_user, login_required
from locks.dashboard.account.forms import PasswordForm, ProfileForm
from locks.dashboard.account.user_agents import humanize
from locks.dashboard.reauthentication.flow import confirm, recently_confirmed, require_reauthentication
from locks.models import User
from locks.services import accounts
from locks.services.mfa import Kind, factors_of, is_mfa_required, recovery_codes_left


@require_safe
@login_required
def account(request: HttpRequest) -> HttpResponse:
    return _page(request)


@require_POST
@login_required
@recently_confirmed
def profile(request: HttpRequest) -> HttpResponse:
    # Read afresh: a form that is wrong must not change who the page says is signed in.
    form = ProfileForm(request.POST, instance=User.objects.get(pk=current_user(request).pk))
    if not form.is_valid():
        return _page(request, {"profile": form}, status=422)
    try:
        changed = accounts.change_profile(actor=actor(request), user=current_user(request), **form.cleaned_data)
    except IntegrityError:
        # Somebody took the address in this moment; checked again, the form says so.
        current_user(request).refresh_from_db()
        form = ProfileForm(request.POST, instance=User.objects.get(pk=current_user(request).pk))
        return _page(request, {"profile": form}, status=422)
    if changed:
        messages.success(request, "Your profile is changed.")
    return redirect("dashboard:account")


@sensitive_post_parameters()
@require_POST
@login_required
def password(request: HttpRequest) -> HttpResponse:
    """Asks for the one they have in the form itself, so that the new one is not carried about."""
    user = current_user(request)
    if not user.has_usable_password() and (asked := require_reauthentication(request)):
        return asked
    form = PasswordForm(request.POST, user=user)
    if form.is_valid() and user.has_usable_password():
        outcome = confirm(request, {"confirm_password": form.cleaned_data["current"]})
        if outcome.wait_seconds:
            form.add_error("current", f"Too many tries. Wait {outcome.wait_seconds} seconds, then try again.")
        elif not outcome.is_right:
            form.add_error("current", "That is not your password.")
    if not form.is_valid():
        return _page(request, {"password": form}, status=422)
    accounts.change_password(actor=actor(request), request=request, user=user, password=form.cleaned_data["password"])
    messages.success(request, "Your password is changed, and you are signed out everywhere else.")
    return redirect("dashboard:account")


@require_POST
@login_required
def revoke_session(request: HttpRequest, public_id: UUID) -> HttpResponse:
    if not accounts.revoke_session(actor=actor(request), user=current_user(request), public_id=public_id):
        raise Http404
    messages.success(request, "That session is over.")
    return redirect("dashboard:account")


@require_POST
@login_required
def revoke_other_sessions(request: HttpRequest) -> HttpResponse:
    ended = accounts.revoke_other_sessions(actor=actor(request), request=request, user=current_user(request))
    messages.success(request, f"{ended} other session{'' if ended == 1 else 's'} ended.")
    return redirect("dashboard:account")


@require_POST
@login_required
def sign_out_everywhere(request: HttpRequest) -> HttpResponse:
    accounts.sign_out_everywhere(actor=actor(request), user=current_user(request))
    request.session.flush()
    return redirect("dashboard:sign-in")


def _page(request: HttpRequest, forms: dict[str, Any] | None = None, *, status: int = 200) -> HttpResponse:
    user = current_user(request)
    sessions = [
        {"session": session, "browser": humanize(session.user_agent), "is_this": accounts.is_this(request, session)}
        for session in accounts.sessions_of(user)
    ]
    context: dict[str, Any] = {
        "profile": ProfileForm(instance=user),
        "password": PasswordForm(user=user),
        "has_password": user.has_usable_password(),
        "sessions": sorted(sessions, key=lambda each: not each["is_this"]),
        **_ways_in_of(request),
        "now": timezone.now(),
        "here": "account",
    }
    return render(request, "account/page.html", {**context, **(forms or {})}, status=status)


def _ways_in_of(request: HttpRequest) -> dict[str, Any]:
    user = current_user(request)
    factors = list(factors_of(user)) if settings.MFA_SUPPORTED_TYPES else []
    connected = list(SocialAccount.objects.filter(user=user)) if settings.PROVIDERS else []
    return {
        "codes_on": settings.ONE_TIME_CODES,
        "passkeys_on": settings.PASSKEYS,
        "codes": next((each for each in factors if each.type == Kind.TOTP), None),
        "passkeys": [each for each in factors if each.type == Kind.WEBAUTHN],
        "recovery_codes_left": recovery_codes_left(user) if factors else 0,
        "requires_mfa": is_mfa_required(user),
        "providers": [
            {"name": name, "shown": shown, "account": next((one for one in connected if one.provider == name), None)}
            for name, shown in settings.PROVIDERS.items()
        ],
    }
