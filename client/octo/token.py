"""What a bearer token looks like, `octo_<public id>_<secret><checksum>`: a typo is noticed before it is sent."""

import re
import zlib

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_CHECKSUM_LENGTH = 6
_PATTERN = re.compile(r"octo_([0-9A-Za-z]{12})_[0-9A-Za-z]{42}")


def _checksum(body: str) -> str:
    number = zlib.crc32(body.encode())
    digits = ""
    for _ in range(_CHECKSUM_LENGTH):
        number, digit = divmod(number, len(_ALPHABET))
        digits = _ALPHABET[digit] + digits
    return digits


def public_id(token: str) -> str | None:
    """The part that is no secret; None unless shape and checksum are right."""
    match = _PATTERN.fullmatch(token)
    if match is None or _checksum(token[:-_CHECKSUM_LENGTH]) != token[-_CHECKSUM_LENGTH:]:
        return None
    return match[1]


def problem_with(token: str) -> str | None:
    """What is wrong with a token, as a sentence that does not quote it; None if nothing can be seen to be."""
    if not token.startswith("octo_"):
        return "It does not start with octo_, so it is no token of Octoadmin."
    if _PATTERN.fullmatch(token) is None:
        return "It is not octo_<12 characters>_<42 characters>: part of it is missing, or there is too much."
    if public_id(token) is None:
        return "Its checksum is wrong: a character was changed on the way."
    return None
