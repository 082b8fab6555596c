"""Encrypts webhook secrets at rest, with a key derived from SECRET_KEY: a dump of the database alone cannot sign."""

import base64
import secrets
from functools import lru_cache

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings
from django.utils.encoding import force_bytes


class DecryptionFailed(Exception):
    """SECRET_KEY was changed and the old one is not among SECRET_KEY_FALLBACKS."""


def new_secret() -> str:
    return f"whsec_{secrets.token_urlsafe(32)}"


def encrypt(secret: str) -> bytes:
    return _fernet().encrypt(secret.encode())


def decrypt(encrypted: bytes | memoryview) -> str:
    try:
        return _fernet().decrypt(bytes(encrypted)).decode()
    except InvalidToken:
        raise DecryptionFailed from None


def _fernet() -> MultiFernet:
    """Encrypts with the current key, and decrypts with that or an earlier one."""
    return MultiFernet([_fernet_of(key) for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)])


@lru_cache(maxsize=8)
def _fernet_of(key: str | bytes) -> Fernet:
    derived = HKDF(algorithm=SHA256(), length=32, salt=None, info=b"octoadmin webhook secrets").derive(force_bytes(key))
    return Fernet(base64.urlsafe_b64encode(derived))
