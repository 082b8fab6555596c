"""How django-allauth stores second factors: encrypted, and only the kinds that are switched on."""

import base64
import hashlib

from allauth.mfa.adapter import DefaultMFAAdapter
from cryptography.fernet import Fernet, MultiFernet
from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser

from locks.models import User
from locks.services.mfa import factors_of


class MfaAdapter(DefaultMFAAdapter):  # type: ignore[misc]
    def encrypt(self, text: str) -> str:
        return _cipher().encrypt(text.encode()).decode()

    def decrypt(self, encrypted_text: str) -> str:
        return _cipher().decrypt(encrypted_text.encode()).decode()

    def is_mfa_enabled(self, user: AbstractBaseUser, types: list[str] | None = None) -> bool:
        """Factors of a kind that is switched off do not count."""
        if not isinstance(user, User):
            return False
        factors = factors_of(user)
        return (factors if types is None else factors.filter(type__in=types)).exists()

    def _get_site_name(self) -> str:
        return "Octoadmin"


def _cipher() -> MultiFernet:
    """Encrypts with SECRET_KEY and also decrypts what was encrypted with one of SECRET_KEY_FALLBACKS."""
    keys = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    digests = (hashlib.sha256(b"second factors\0" + key.encode()).digest() for key in keys)
    return MultiFernet([Fernet(base64.urlsafe_b64encode(digest)) for digest in digests])
