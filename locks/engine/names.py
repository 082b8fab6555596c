"""Lock names: segments joined by `/`, which are readable everywhere and unambiguous in a path.

A name may begin with a namespace, up to its first colon. Names of a namespace whose rule is `tree` are paths, and have
one canonical form, the only one that the engine compares. The rules depend on the space, so they are looked up only for
the few names that are not in that form already.
"""

import re
import unicodedata
from collections.abc import Callable, Mapping

MAX_NAME_BYTES = 256
# The last segment of a path, where it names the operation.
VERBS = frozenset({"acquire", "force-release", "history", "release", "renew", "watch"})
# Operations on many locks, whose paths look like that of a lock.
RESERVED = frozenset({"acquire-all", "claim-next", "release-all", "renew-all"})
# \w is letters and digits of any script, and the underscore.
_NAME = re.compile(r"[\w.\-:@+=~]+(?:/[\w.\-:@+=~]+)*")
NAMESPACE = re.compile(r"[a-z][a-z0-9_-]{0,30}:")

# The rule of each namespace of a space, by the namespace with its colon.
Rules = Callable[[], Mapping[str, str]]


class InvalidPath(ValueError):
    """A path that leads out of its tree."""


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


def is_canonical(name: str) -> bool:
    """Whether the name would be the same as a path of a tree."""
    namespace = NAMESPACE.match(name) if ":" in name else None
    if namespace is None:
        return True
    path = name[namespace.end() :]
    return not path or not {"", ".", ".."}.intersection(path.split("/"))


def canonical_name(name: str, rules: Rules) -> str:
    """`path:./src//auth.rs/` is `path:src/auth.rs`, and `path:/` is `path:`, the whole tree. Raises InvalidPath."""
    if is_canonical(name):
        return name
    namespace, colon, path = name.partition(":")
    if rules().get(namespace + colon) != "tree":
        return name
    return namespace + colon + "/".join(_segments(path.split("/")))


def canonical_prefix(prefix: str, rules: Rules) -> str:
    """The same for the beginning of a name, whose last segment may go on. Raises InvalidPath."""
    if is_canonical(prefix):
        return prefix
    namespace, colon, path = prefix.partition(":")
    if rules().get(namespace + colon) != "tree":
        return prefix
    *folders, last = path.split("/")
    return namespace + colon + "".join(f"{folder}/" for folder in _segments(folders)) + last


def canonical_filter(text: str, rules: Rules, *, is_prefix: bool) -> str:
    """For what lists are filtered by. A path that leads out of its tree stays as it is, and matches nothing."""
    try:
        return canonical_prefix(text, rules) if is_prefix else canonical_name(text, rules)
    except InvalidPath:
        return text


def _segments(segments: list[str]) -> list[str]:
    if ".." in segments:
        raise InvalidPath("A path may not contain a segment that is '..'.")
    return [segment for segment in segments if segment not in ("", ".")]
