"""Passkey credentials as a browser sends them, and challenges as it takes them."""

import json
from typing import Any

from allauth.mfa.models import Authenticator
from allauth.mfa.webauthn.forms import AuthenticateWebAuthnForm
from django.conf import settings

from locks.models import User


def verify_passkey(user: User, credential: str) -> Authenticator | None:
    """The passkey of this user that signed the challenge of this browser."""
    if not settings.PASSKEYS or not is_well_formed(credential):
        return None
    form = AuthenticateWebAuthnForm(user=user, data={"credential": credential})
    return form.cleaned_data["credential"] if form.is_valid() else None


def is_well_formed(credential: str) -> bool:
    """The library raises on other shapes instead of refusing them."""
    try:
        parsed = json.loads(credential)
        return isinstance(parsed["response"], dict) and isinstance(parsed["response"].get("userHandle") or "", str)
    except (ValueError, TypeError, KeyError, RecursionError):
        return False


def to_json(options: Any) -> dict[str, Any]:
    """The library's mappings as plain dicts."""
    return {name: to_json(value) if hasattr(value, "items") else value for name, value in options.items()}
