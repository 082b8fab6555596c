"""What a browser presents as proof, read with care: it comes from outside."""

import json
from typing import Any

from allauth.mfa.models import Authenticator
from allauth.mfa.webauthn.forms import AuthenticateWebAuthnForm
from allauth.socialaccount.models import SocialAccount
from django.conf import settings

from locks.models import User


def passkey_of(user: User, credential: str) -> Authenticator | None:
    """Which of a person's passkeys has signed what this browser was asked to sign."""
    if not settings.PASSKEYS or not is_readable(credential):
        return None
    form = AuthenticateWebAuthnForm(user=user, data={"credential": credential})
    return form.cleaned_data["credential"] if form.is_valid() else None


def is_readable(credential: str) -> bool:
    """The library takes its shape for granted."""
    try:
        found = json.loads(credential)
        return isinstance(found["response"], dict) and isinstance(found["response"].get("userHandle") or "", str)
    except (ValueError, TypeError, KeyError, RecursionError):
        return False


def plain(options: Any) -> dict[str, Any]:
    """The library's mappings as JSON knows them."""
    return {name: plain(value) if hasattr(value, "items") else value for name, value in options.items()}


def providers_of(user: User) -> dict[str, str]:
    """Of those that are set up, the ones somebody signs in with."""
    used = SocialAccount.objects.filter(user=user).values_list("provider", flat=True)
    return {name: settings.PROVIDERS[name] for name in used if name in settings.PROVIDERS}
