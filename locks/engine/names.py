"""Lock names: segments joined by `/`, which are readable everywhere and unambiguous in a path."""

import re
import unicodedata

MAX_NAME_BYTES = 256
# The last segment of a path, where it names the operation.
VERBS = frozenset({"acl", "acquire", "force-release", "history", "release", "renew", "watch"})
# Operations on many locks, whose paths look like that of a lock.
RESERVED = frozenset({"acquire-all", "claim-next", "release-all", "renew-all"})
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
    if name in RESERVED:
        return f"A lock cannot be named {name!r}, which is a path of this API."
    return None
