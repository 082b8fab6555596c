"""Who may sign in through a provider: an account that it is connected to, an account whose address both sides have
verified, an invited person, and people of a domain that is open for sign-up. An address that was only typed into a
profile never counts."""

from typing import Any, NoReturn

from allauth.account.internal.stagekit import clear_login
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialLogin
from allauth.socialaccount.providers.base.constants import AuthError, AuthProcess
from django.conf import settings
from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest
from django.shortcuts import redirect

from locks.dashboard.access import actor_of, request_id
from locks.dashboard.social_accounts.refusal import Reason, sign_in_refused
from locks.models import ActorKind, Channel, Invite, User
from locks.services import invites, social_accounts
from locks.services.audit import Actor


class Refused(Exception):
    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason = reason


class SocialAccountAdapter(DefaultSocialAccountAdapter):  # type: ignore[misc]
    def list_apps(self, request: HttpRequest, provider: str | None = None, client_id: str | None = None) -> list[Any]:
        """From the settings only: a row in a table could name an issuer that the operator did not configure."""
        from allauth.socialaccount.adapter import _build_apps_from_settings

        configured = _build_apps_from_settings(provider=provider, client_id=client_id)
        return [app for apps in configured.values() for app in apps]

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        try:
            # In one transaction, so that a refused sign-in leaves no account behind.
            with transaction.atomic():
                self._authorize(request, sociallogin)
        except Refused as refused:
            clear_login(request)
            self._record_refusal(request, sociallogin, refused.reason)
            response = sign_in_refused(request, refused.reason, provider=sociallogin.provider.name)
            raise ImmediateHttpResponse(response) from None
        if sociallogin.state.get("process") == AuthProcess.CONNECT:
            messages.success(request, f"You can now sign in with {sociallogin.provider.name}.")
            raise ImmediateHttpResponse(redirect("dashboard:account"))

    def on_authentication_error(
        self, request: HttpRequest, provider: Any, error: Any = None, exception: Any = None, extra_context: Any = None
    ) -> NoReturn:
        reason: Reason = "cancelled" if error == AuthError.CANCELLED else "failed"
        raise ImmediateHttpResponse(sign_in_refused(request, reason, provider=provider.name))

    def _authorize(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        # The ID token and userinfo must be about the same subject.
        claims = sociallogin.account.extra_data
        if "id_token" in claims and claims.get("userinfo", claims["id_token"]).get("sub") != claims["id_token"]["sub"]:
            raise Refused("failed")
        if sociallogin.state.get("process") == AuthProcess.CONNECT:
            self._connect(request, sociallogin)
        else:
            self._sign_in(request, sociallogin)

    def _sign_in(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        invite = _invite_of(sociallogin)
        verified = verified_addresses(sociallogin)
        user = sociallogin.user if sociallogin.is_existing else social_accounts.find_by_email(verified)
        if user is not None and not user.is_active:
            raise Refused("inactive")
        is_new = user is None
        if user is None:
            if invite is None and not any(_is_of_open_domain(address) for address in verified):
                raise Refused("unknown" if verified else "unverified")
            if any(social_accounts.is_email_taken(address) for address in verified):
                # Typed into the profile of an account, which may or may not be theirs.
                raise Refused("sign_in_first")
            user = social_accounts.create_user(
                email=verified[0] if verified else "",
                preferred_name=sociallogin.user.username or (verified[0].partition("@")[0] if verified else ""),
                first_name=sociallogin.user.first_name, last_name=sociallogin.user.last_name,
                provider=provider_of(sociallogin), make_actor=lambda user: actor_of(request, user),
            )  # fmt: skip
        if not sociallogin.is_existing:
            _save_connection(request, sociallogin, user)
            sociallogin.user = user
        if invite is not None:
            try:
                invites.accept(actor=actor_of(request, user), invite=invite, member=user, is_new=is_new)
            except invites.AlreadyMember:
                pass
            except invites.NotOpen:
                raise Refused("invite_closed") from None

    def _connect(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        """To the user who started it on the account page and is still signed in."""
        user = request.user
        if not isinstance(user, User) or (sociallogin.state.get("data") or {}).get("user") != user.pk:
            raise Refused("failed")
        if sociallogin.is_existing and sociallogin.user != user:
            raise Refused("connected_elsewhere")
        if not sociallogin.is_existing:
            _save_connection(request, sociallogin, user)

    def _record_refusal(self, request: HttpRequest, sociallogin: SocialLogin, reason: Reason) -> None:
        social_accounts.record_rejection(
            actor=Actor(
                kind=ActorKind.USER, name="unknown", channel=Channel.WEB, address=request.META.get("REMOTE_ADDR"),
                request_id=request_id(request),
            ),
            provider=provider_of(sociallogin), reason=reason,
        )  # fmt: skip


def verified_addresses(sociallogin: SocialLogin) -> list[str]:
    """Those that the provider has verified, the primary one first. Some providers send strings: "false" is no."""
    addresses = sociallogin.email_addresses
    verified = [address for address in addresses if address.verified is True or address.verified == "true"]
    return [address.email for address in sorted(verified, key=lambda address: not address.primary)]


def provider_of(sociallogin: SocialLogin) -> str:
    return str(sociallogin.account.provider)


def _invite_of(sociallogin: SocialLogin) -> Invite | None:
    invite_id = (sociallogin.state.get("data") or {}).get("invite")
    if invite_id is None:
        return None
    invite = invites.open_invites().filter(pk=invite_id).first()
    if invite is None:
        raise Refused("invite_closed")
    return invite


def _save_connection(request: HttpRequest, sociallogin: SocialLogin, user: User) -> None:
    social_accounts.connect(
        actor=actor_of(request, user), user=user, account=sociallogin.account, provider=provider_of(sociallogin),
        verified=verified_addresses(sociallogin),
    )  # fmt: skip


def _is_of_open_domain(address: str) -> bool:
    return address.rpartition("@")[2].lower() in settings.SIGN_UP_DOMAINS
