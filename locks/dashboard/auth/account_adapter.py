"""The last step of every way in, whatever was proved before: the session begins here, and the record says how."""

from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.internal.flows.login import get_authentication_records
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from locks.dashboard.access import actor_of
from locks.dashboard.auth.refusal import refusal
from locks.models import User
from locks.services import sign_in


class AccountAdapter(DefaultAccountAdapter):  # type: ignore[misc]
    def get_login_stages(self) -> list[str]:
        return ["allauth.mfa.stages.AuthenticateStage"]

    def login(self, request: HttpRequest, user: User) -> None:
        sign_in.log_in(request=request, user=user, methods=methods_used(request, user), actor=actor_of(request, user))

    def respond_user_inactive(self, request: HttpRequest, user: User) -> HttpResponse:
        return refusal(request, "switched_off")

    def get_login_redirect_url(self, request: HttpRequest) -> str:
        return reverse("dashboard:home")

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def add_message(self, *args: Any, **kwargs: Any) -> None:
        """Our pages say what happened themselves."""

    def send_mail(self, *args: Any, **kwargs: Any) -> None:
        """There may be no mail server; nothing here depends on one."""


def methods_used(request: HttpRequest, user: User) -> list[str]:
    """As the history calls them: password, github, openid, passkey, totp, recovery_codes."""
    return [_name(one) for one in get_authentication_records(request, user)]


def _name(one: dict[str, Any]) -> str:
    match one["method"]:
        case "socialaccount":
            return str(one["provider"])
        case "mfa":
            return "passkey" if one["type"] == "webauthn" else str(one["type"])
    return str(one["method"])
