"""The account of the signed-in user: profile, password, sign-in methods and browser sessions."""

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
from locks.dashboard.account.queries import account_events
from locks.dashboard.account.user_agents import describe_browser
from locks.dashboard.reauthentication.flow import confirm, recently_confirmed, require_reauthentication
from locks.models import User
from locks.services import accounts as service
from locks.services.mfa import Kind, factors_of, is_mfa_required, recovery_codes_left


@require_safe
@login_required
def account(request: HttpRequest) -> HttpResponse:
    return _page(request)


@require_POST
@login_required
@recently_confirmed
def profile(request: HttpRequest) -> HttpResponse:
    form = _profile_form(request)
    if not form.is_valid():
        return _page(request, profile_form=form, status=422)
    try:
        changed = service.change_profile(actor=actor(request), user=current_user(request), **form.cleaned_data)
    except IntegrityError:
        # Another account took the address at the same moment; validated again, the form says so.
        current_user(request).refresh_from_db()
        return _page(request, profile_form=_profile_form(request), status=422)
    if changed:
        messages.success(request, "Profile saved.")
    return redirect("dashboard:account")


@sensitive_post_parameters()
@require_POST
@login_required
def password(request: HttpRequest) -> HttpResponse:
    """The form itself asks for the current password, so that the new one is not carried through another form."""
    user = current_user(request)
    has_password = user.has_usable_password()
    if not has_password and (challenge := require_reauthentication(request)):
        return challenge
    form = PasswordForm(request.POST, user=user)
    if form.is_valid() and has_password:
        result = confirm(request, {"confirm_password": form.cleaned_data["current"]})
        if result.wait_seconds:
            form.add_error("current", f"Too many attempts. Try again in {result.wait_seconds} s.")
        elif not result.is_confirmed:
            form.add_error("current", "Incorrect password.")
    if not form.is_valid():
        return _page(request, password_form=form, status=422)
    service.change_password(actor=actor(request), request=request, user=user, password=form.cleaned_data["password"])
    messages.success(request, "Password changed. All other sessions have ended.")
    return redirect("dashboard:account")


@require_POST
@login_required
def revoke_session(request: HttpRequest, public_id: UUID) -> HttpResponse:
    if not service.revoke_session(actor=actor(request), user=current_user(request), public_id=public_id):
        raise Http404
    messages.success(request, "Session ended.")
    return redirect("dashboard:account")


@require_POST
@login_required
def revoke_other_sessions(request: HttpRequest) -> HttpResponse:
    ended = service.revoke_other_sessions(actor=actor(request), request=request, user=current_user(request))
    messages.success(request, f"{ended} other session{'' if ended == 1 else 's'} ended.")
    return redirect("dashboard:account")


@require_POST
@login_required
def sign_out_everywhere(request: HttpRequest) -> HttpResponse:
    service.sign_out_everywhere(actor=actor(request), user=current_user(request))
    request.session.flush()
    return redirect("dashboard:sign-in")


def _profile_form(request: HttpRequest) -> ProfileForm:
    # A second instance: validation writes to it, and the page around the form shows the stored values.
    return ProfileForm(request.POST, instance=User.objects.get(pk=current_user(request).pk))


def _page(
    request: HttpRequest,
    *,
    profile_form: ProfileForm | None = None,
    password_form: PasswordForm | None = None,
    status: int = 200,
) -> HttpResponse:
    user = current_user(request)
    sessions = [
        {
            "session": session,
            "browser": describe_browser(session.user_agent),
            "is_current": service.is_current_session(request, session),
        }
        for session in service.sessions_of(user)
    ]
    context: dict[str, Any] = {
        "profile_form": profile_form or ProfileForm(instance=user),
        "password_form": password_form or PasswordForm(user=user),
        "has_password": user.has_usable_password(),
        "events": account_events(user),
        "sessions": sorted(sessions, key=lambda row: not row["is_current"]),
        **_sign_in_methods(user),
        "now": timezone.now(),
    }
    return render(request, "account/page.html", context, status=status)


def _sign_in_methods(user: User) -> dict[str, Any]:
    factors = list(factors_of(user)) if settings.MFA_SUPPORTED_TYPES else []
    accounts = SocialAccount.objects.filter(user=user) if settings.PROVIDERS else []
    connected = {account.provider: account for account in accounts}
    return {
        "totp_enabled": settings.ONE_TIME_CODES,
        "passkeys_enabled": settings.PASSKEYS,
        "totp": next((factor for factor in factors if factor.type == Kind.TOTP), None),
        "passkeys": [factor for factor in factors if factor.type == Kind.WEBAUTHN],
        "recovery_codes_left": recovery_codes_left(user) if factors else 0,
        "requires_mfa": is_mfa_required(user),
        "providers": [(name, label, connected.get(name)) for name, label in settings.PROVIDERS.items()],
    }
