"""What a token may be called and bound to: the same in the dashboard, in the API and from the shell.

A name is read in lists and in the history, so it has something to see and nothing that changes how the rest is read:
no control characters, none that turn the direction of the text.
"""

import re

MAX_NAME = 128
MAX_PREFIX = 256
MAX_PREFIXES = 50

_NOT_IN_TEXT = r"\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069"
_UNSEEN = rf"{_NOT_IN_TEXT}\s\u200b-\u200f\u2060\ufeff"
# Also in the API's description, so only what every kind of regular expression understands.
NAME_PATTERN = rf"^[^{_NOT_IN_TEXT}]*[^{_UNSEEN}][^{_NOT_IN_TEXT}]*$"
PREFIX_PATTERN = rf"^[^{_UNSEEN}]+$"


def is_name(text: str) -> bool:
    return len(text) <= MAX_NAME and re.fullmatch(NAME_PATTERN, text) is not None


def is_prefix(text: str) -> bool:
    """No lock's name has blanks, so what begins with one would match nothing."""
    return len(text) <= MAX_PREFIX and re.fullmatch(PREFIX_PATTERN, text) is not None
