"""Names, owners and metadata come from workers: characters that hide or reorder the text around them are shown."""

import re
import unicodedata

# Control characters but tab and line feed; marks that change the direction of text; characters without width.
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069\ufeff]")
_RIGHT_TO_LEFT = frozenset({"R", "AL", "AN"})
_FIRST_STRONG_ISOLATE, _POP_DIRECTIONAL_ISOLATE = "\u2068", "\u2069"


def visible(text: str | None) -> str:
    """With a picture or the number of each hidden character in its place."""
    return _HIDDEN.sub(_picture, text or "")


def isolate(text: str | None) -> str:
    """For a sentence: text of another direction does not reorder the words after it. In HTML `<bdi>` does the same."""
    shown = visible(text)
    if any(unicodedata.bidirectional(letter) in _RIGHT_TO_LEFT for letter in shown):
        return f"{_FIRST_STRONG_ISOLATE}{shown}{_POP_DIRECTIONAL_ISOLATE}"
    return shown


def _picture(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"[U+{code:04X}]"
