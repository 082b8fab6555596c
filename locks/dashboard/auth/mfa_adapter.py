"""Second factors as django-allauth asks for them: under our name, and nothing readable in the table."""

import base64
import hashlib

from allauth.mfa.adapter import DefaultMFAAdapter
from cryptography.fernet import Fernet, MultiFernet
from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser
from django.utils.encoding import force_bytes

from locks.models import User
from locks.services.mfa import factors_of


class FactorAdapter(DefaultMFAAdapter):  # type: ignore[misc]
    def encrypt(self, text: str) -> str:
        return _cipher().encrypt(text.encode()).decode()

    def decrypt(self, encrypted_text: str) -> str:
        return _cipher().decrypt(encrypted_text.encode()).decode()

    def is_mfa_enabled(self, user: AbstractBaseUser, types: list[str] | None = None) -> bool:
        """A kind that was switched off is not asked for."""
        if not isinstance(user, User):
            return False
        found = factors_of(user)
        return (found if types is None else found.filter(type__in=types)).exists()

    def _get_site_name(self) -> str:
        return "Octoadmin"


def _cipher() -> MultiFernet:
    """Encrypts with the current key, and decrypts what earlier keys have encrypted."""
    return MultiFernet([_fernet(force_bytes(key)) for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)])


def _fernet(key: bytes) -> Fernet:
    return Fernet(base64.urlsafe_b64encode(hashlib.sha256(b"second factors\0" + key).digest()))
