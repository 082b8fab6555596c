"""Rules for names, prefixes and expiry of tokens: the same in the dashboard, in the API and in `manage.py`.

Names appear in lists and in the history, so they need a visible character and must not have control characters or
characters that change the direction of text.
"""

import re
from datetime import timedelta

# A token that expires within this time is marked on the pages, and is the subject of an alert.
EXPIRES_SOON = timedelta(days=14)

MAX_NAME = 128
MAX_PREFIX = 256
MAX_PREFIXES = 50

_NOT_IN_TEXT = r"\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069"
_INVISIBLE = rf"{_NOT_IN_TEXT}\s\u200b-\u200f\u2060\ufeff"
# Also used in the OpenAPI document, so only syntax that all regular expression dialects share.
NAME_PATTERN = rf"^[^{_NOT_IN_TEXT}]*[^{_INVISIBLE}][^{_NOT_IN_TEXT}]*$"
PREFIX_PATTERN = rf"^[^{_INVISIBLE}]+$"


def is_valid_name(text: str) -> bool:
    return len(text) <= MAX_NAME and re.fullmatch(NAME_PATTERN, text) is not None


def is_valid_prefix(text: str) -> bool:
    """Names of locks have no white space, so a prefix with it would match nothing."""
    return len(text) <= MAX_PREFIX and re.fullmatch(PREFIX_PATTERN, text) is not None
