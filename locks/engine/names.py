"""Lock names: segments joined by `/`, which are readable everywhere and unambiguous in a path."""

import re
import unicodedata

MAX_NAME_BYTES = 256
# The last segment of a path names the operation, so no lock name ends in one of these.
RESERVED_SUFFIXES = frozenset(
    {
        "acquire", "acquire-all", "claim-next", "force-release", "history", "release", "release-all", "renew",
        "renew-all", "watch",
    }
)  # fmt: skip
# \w is letters and digits of any script, and the underscore.
_NAME = re.compile(r"[\w.\-:@+=~]+(?:/[\w.\-:@+=~]+)*")


def _without_marks(name: str) -> str:
    """Many scripts write vowels as marks on a letter; they are part of the word."""
    return "".join(letter for letter in name if unicodedata.category(letter) not in ("Mn", "Mc"))


def validate(name: str) -> str | None:
    """What is wrong with a name, as a sentence; None if nothing is."""
    if not name:
        return "The name is empty."
    if len(name.encode(errors="surrogatepass")) > MAX_NAME_BYTES:
        return f"The name is longer than {MAX_NAME_BYTES} bytes."
    if _NAME.fullmatch(name) is None and _NAME.fullmatch(_without_marks(name)) is None:
        return (
            "A name consists of segments joined by '/', each of letters, digits and . _ - : @ + = ~, "
            "with no empty segment."
        )
    segments = name.split("/")
    if "." in segments or ".." in segments:
        return "A name may not contain a segment that is '.' or '..'."
    if segments[-1] in RESERVED_SUFFIXES:
        return f"A name may not end in {segments[-1]!r}, which is an operation of this API."
    return None
