"""Secrets of webhooks at rest: encrypted with a key that is derived from SECRET_KEY, so a dump of the database is not
enough to sign in our name."""

import base64
import secrets
from functools import lru_cache

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings
from django.utils.encoding import force_bytes


class Unreadable(Exception):
    """None of the keys opens it: SECRET_KEY was changed and the old one is not among SECRET_KEY_FALLBACKS."""


def new_secret() -> str:
    return f"whsec_{secrets.token_urlsafe(32)}"


def encrypt(secret: str) -> bytes:
    return _box().encrypt(secret.encode())


def decrypt(sealed: bytes | memoryview) -> str:
    try:
        return _box().decrypt(bytes(sealed)).decode()
    except InvalidToken:
        raise Unreadable from None


def _box() -> MultiFernet:
    """Seals with the key of now, and opens what earlier ones have sealed."""
    return MultiFernet([_lock(key) for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)])


@lru_cache(maxsize=8)
def _lock(key: str | bytes) -> Fernet:
    derived = HKDF(algorithm=SHA256(), length=32, salt=None, info=b"octoadmin webhook secrets").derive(force_bytes(key))
    return Fernet(base64.urlsafe_b64encode(derived))
