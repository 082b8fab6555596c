"""The format of bearer tokens: `octo_<public id>_<secret><checksum>`.

Only letters and digits between the underscores, so that a double click selects the whole token. The checksum lets a
scanner recognise a token offline. Only the SHA-256 digest is stored; the secret has more than 200 bits, so a fast
digest is enough, and the database can look it up by index.
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
    """A well-formed token of a request, without the plaintext. It is not authenticated yet."""

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


def generate(cell: str = "") -> str:
    """The public id begins with the cell, so that a load balancer can route by the token without a lookup."""
    body = f"octo_{cell}{_random(PUBLIC_ID_LENGTH - len(cell))}_{_random(SECRET_LENGTH)}"
    return body + _checksum(body)


def parse(text: str) -> PresentedToken | None:
    """None unless the format and the checksum are right."""
    match = PATTERN.fullmatch(text)
    if match is None or _checksum(text[:-CHECKSUM_LENGTH]) != text[-CHECKSUM_LENGTH:]:
        return None
    return PresentedToken(public_id=match[1], digest=hashlib.sha256(text.encode()).digest())
