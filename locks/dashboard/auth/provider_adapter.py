"""Who gets in through a provider: people whose account it is, people known by an address that both sides have verified,
people with an invitation, and those of a domain that the operator has opened. Nobody else, and nobody by an address
that was merely typed in somewhere."""

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
from locks.dashboard.auth.refusal import Because, refusal
from locks.models import ActorKind, Channel, User
from locks.services import invites, social_accounts
from locks.services.audit import Actor


class Refused(Exception):
    def __init__(self, because: Because) -> None:
        super().__init__(because)
        self.because = because


class ProviderAdapter(DefaultSocialAccountAdapter):  # type: ignore[misc]
    def list_apps(self, request: HttpRequest, provider: str | None = None, client_id: str | None = None) -> list[Any]:
        """Out of the settings only: what stands in a table could name an issuer that the operator did not."""
        from allauth.socialaccount.adapter import _build_apps_from_settings

        found = _build_apps_from_settings(provider=provider, client_id=client_id)
        return [app for apps in found.values() for app in apps]

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        try:
            # All of it or nothing: no account stays behind for somebody who is turned away.
            with transaction.atomic():
                self._decide(request, sociallogin)
        except Refused as refused:
            clear_login(request)
            self._record(request, sociallogin, refused.because)
            shown = refusal(request, refused.because, provider=sociallogin.provider.name)
            raise ImmediateHttpResponse(shown) from None
        if sociallogin.state.get("process") == AuthProcess.CONNECT:
            messages.success(request, f"You can sign in with {sociallogin.provider.name} now.")
            raise ImmediateHttpResponse(redirect("dashboard:account"))

    def _decide(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        # What both say of the person must be said of the same person.
        claims = sociallogin.account.extra_data
        if "id_token" in claims and claims.get("userinfo", claims["id_token"]).get("sub") != claims["id_token"]["sub"]:
            raise Refused("failed")
        if sociallogin.state.get("process") == AuthProcess.CONNECT:
            self._connect(request, sociallogin)
        else:
            self._let_in(request, sociallogin)

    def on_authentication_error(
        self, request: HttpRequest, provider: Any, error: Any = None, exception: Any = None, extra_context: Any = None
    ) -> NoReturn:
        because: Because = "cancelled" if error == AuthError.CANCELLED else "failed"
        raise ImmediateHttpResponse(refusal(request, because, provider=provider.name))

    def _let_in(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        invite = None
        if (invite_id := (sociallogin.state.get("data") or {}).get("invite")) is not None:
            invite = invites.open_invites().filter(pk=invite_id).first()
            if invite is None:
                raise Refused("invite_over")
        verified = verified_addresses(sociallogin)
        known = sociallogin.user if sociallogin.is_existing else social_accounts.find_by_email(verified)
        if known is not None and not known.is_active:
            raise Refused("switched_off")
        is_new = known is None
        if known is None:
            if invite is None and not any(_is_of_open_domain(address) for address in verified):
                raise Refused("unknown" if verified else "unverified")
            if any(social_accounts.is_email_taken(address) for address in verified):
                # Somebody has typed it into their profile. It may be them, but nobody knows that yet.
                raise Refused("sign_in_first")
            known = social_accounts.create_user(
                email=verified[0] if verified else "",
                preferred_name=sociallogin.user.username or (verified[0].partition("@")[0] if verified else ""),
                first_name=sociallogin.user.first_name, last_name=sociallogin.user.last_name,
                provider=name_of(sociallogin), make_actor=lambda user: actor_of(request, user),
            )  # fmt: skip
        if not sociallogin.is_existing:
            social_accounts.connect(
                actor=actor_of(request, known), user=known, account=sociallogin.account,
                provider=name_of(sociallogin), verified=verified,
            )  # fmt: skip
            sociallogin.user = known
        if invite is not None:
            try:
                invites.accept(actor=actor_of(request, known), invite=invite, member=known, is_new=is_new)
            except invites.AlreadyMember:
                pass
            except invites.NotOpen:
                raise Refused("invite_over") from None

    def _connect(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        """From the account page, to whoever was signed in there, and still is."""
        user = request.user
        if not isinstance(user, User) or (sociallogin.state.get("data") or {}).get("user") != user.pk:
            raise Refused("failed")
        if sociallogin.is_existing and sociallogin.user != user:
            raise Refused("somebody_elses")
        if not sociallogin.is_existing:
            social_accounts.connect(
                actor=actor_of(request, user), user=user, account=sociallogin.account,
                provider=name_of(sociallogin), verified=verified_addresses(sociallogin),
            )  # fmt: skip

    def _record(self, request: HttpRequest, sociallogin: SocialLogin, because: Because) -> None:
        social_accounts.record_rejection(
            actor=Actor(
                kind=ActorKind.USER, name="unknown", channel=Channel.WEB, address=request.META.get("REMOTE_ADDR"),
                request_id=request_id(request),
            ),
            provider=name_of(sociallogin), reason=because,
        )  # fmt: skip


def verified_addresses(sociallogin: SocialLogin) -> list[str]:
    """Those that the provider says it has verified, its primary one first. Some say it in quotes: "false" is no."""
    found = [each for each in sociallogin.email_addresses if each.verified is True or each.verified == "true"]
    return [each.email for each in sorted(found, key=lambda each: not each.primary)]


def name_of(sociallogin: SocialLogin) -> str:
    return str(sociallogin.account.provider)


def _is_of_open_domain(address: str) -> bool:
    return address.rpartition("@")[2].lower() in settings.SIGN_UP_DOMAINS
