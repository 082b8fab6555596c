"""The last step of every login: starts the session and records the methods that were used."""

from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.internal.flows.login import get_authentication_records
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from locks.dashboard.access import actor_of
from locks.dashboard.social_accounts.refusal import sign_in_refused
from locks.models import User
from locks.services import sign_in


class AccountAdapter(DefaultAccountAdapter):  # type: ignore[misc]
    def get_login_stages(self) -> list[str]:
        return ["allauth.mfa.stages.AuthenticateStage"]

    def login(self, request: HttpRequest, user: User) -> None:
        sign_in.log_in(request=request, user=user, methods=methods_used(request, user), actor=actor_of(request, user))

    def respond_user_inactive(self, request: HttpRequest, user: User) -> HttpResponse:
        return sign_in_refused(request, "inactive")

    def get_login_redirect_url(self, request: HttpRequest) -> str:
        return reverse("dashboard:home")

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def add_message(self, *args: Any, **kwargs: Any) -> None:
        """Our pages show their own messages."""

    def send_mail(self, *args: Any, **kwargs: Any) -> None:
        """Nothing here depends on a mail server."""


def methods_used(request: HttpRequest, user: User) -> list[str]:
    """As the audit log names them: password, github, openid, passkey, totp, recovery_codes."""
    return [_method(entry) for entry in get_authentication_records(request, user)]


def _method(entry: dict[str, Any]) -> str:
    match entry["method"]:
        case "socialaccount":
            return str(entry["provider"])
        case "mfa":
            return "passkey" if entry["type"] == "webauthn" else str(entry["type"])
    return str(entry["method"])
