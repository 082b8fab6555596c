"""Credentials that a browser presents. They are untrusted input."""

import json
from typing import Any

from allauth.mfa.models import Authenticator
from allauth.mfa.webauthn.forms import AuthenticateWebAuthnForm
from allauth.socialaccount.models import SocialAccount
from django.conf import settings

from locks.models import User


def passkey_of(user: User, credential: str) -> Authenticator | None:
    """The user's passkey that signed the challenge of this browser; None if the signature is invalid."""
    if not settings.PASSKEYS or not is_readable(credential):
        return None
    form = AuthenticateWebAuthnForm(user=user, data={"credential": credential})
    return form.cleaned_data["credential"] if form.is_valid() else None


def is_readable(credential: str) -> bool:
    """Whether the credential has the shape that the library takes for granted."""
    try:
        response = json.loads(credential)["response"]
        return isinstance(response, dict) and isinstance(response.get("userHandle") or "", str)
    except (ValueError, TypeError, KeyError, RecursionError):
        return False


def plain(options: Any) -> dict[str, Any]:
    """The library's mappings as plain dicts, which JSON can encode."""
    return {name: plain(value) if hasattr(value, "items") else value for name, value in options.items()}


def providers_of(user: User) -> dict[str, str]:
    """The configured providers that the user signs in with."""
    used = SocialAccount.objects.filter(user=user).values_list("provider", flat=True)
    return {name: settings.PROVIDERS[name] for name in used if name in settings.PROVIDERS}
