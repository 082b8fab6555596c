"""What a bearer token looks like: `octo_<public id>_<secret><checksum>`.

Letters and digits only between the underscores, so that a double click selects all of it. The checksum lets a
scanner tell a real token from a look-alike without asking anybody. Only the SHA-256 digest is ever stored; the
secret has more than 200 bits, so a fast digest is enough and the database can look it up by index.
"""

import hashlib
import re
import secrets
import zlib
from dataclasses import dataclass, field

ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
PUBLIC_ID_LENGTH = 12
SECRET_LENGTH = 36
CHECKSUM_LENGTH = 6
PATTERN = re.compile(
    rf"octo_([0-9A-Za-z]{{{PUBLIC_ID_LENGTH}}})_([0-9A-Za-z]{{{SECRET_LENGTH + CHECKSUM_LENGTH}}})", re.ASCII
)


@dataclass(frozen=True, kw_only=True, slots=True)
class PresentedToken:
    """A well-formed token as a caller presented it, without the plaintext. Whether it is any good, only the
    database knows."""

    public_id: str
    digest: bytes = field(repr=False)


def _random(length: int) -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(length))


def _checksum(body: str) -> str:
    number = zlib.crc32(body.encode())
    digits = ""
    for _ in range(CHECKSUM_LENGTH):
        number, digit = divmod(number, len(ALPHABET))
        digits = ALPHABET[digit] + digits
    return digits


def generate() -> str:
    body = f"octo_{_random(PUBLIC_ID_LENGTH)}_{_random(SECRET_LENGTH)}"
    return body + _checksum(body)


def parse(text: str) -> PresentedToken | None:
    """None unless the shape and the checksum are right."""
    match = PATTERN.fullmatch(text)
    if match is None or _checksum(text[:-CHECKSUM_LENGTH]) != text[-CHECKSUM_LENGTH:]:
        return None
    return PresentedToken(public_id=match[1], digest=hashlib.sha256(text.encode()).digest())
