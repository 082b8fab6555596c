"""Names with a namespace: which spelling is stored, which names overlap, and what a file is called.

path:src and path:src/auth.rs overlap, path:src and path:src-old do not; repo: overlaps all of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

MAX_BYTES = 256
# The rules that every space starts with.
DEFAULT_RULES = {"issue": "exact", "path": "tree", "repo": "all"}
_NOT_ALLOWED = re.compile(r"[^\w.\-:@+=~]|=(?=[0-9A-F]{2})")


def split(name: str) -> tuple[str, str]:
    """The namespace, and the rest; no namespace if there is no colon before the first slash."""
    namespace, colon, rest = name.partition(":")
    return (namespace, rest) if colon and "/" not in namespace else ("", name)


def canonical(name: str) -> str:
    """`path:./src//auth/` is `path:src/auth`. For names of `tree` namespaces; `..` is left for the server to refuse."""
    namespace, rest = split(name)
    if not namespace:
        return name
    return f"{namespace}:{'/'.join(segment for segment in rest.split('/') if segment not in ('', '.'))}"


def covers(held: str, name: str, rules: Mapping[str, str] = DEFAULT_RULES) -> bool:
    """Whether holding one name excludes every other holder from the other."""
    (namespace, path), (other, below) = split(held), split(name)
    if held == name or (rules.get(namespace) == "all" and other in rules):
        return True
    return namespace == other and rules.get(namespace) == "tree" and (not path or below.startswith(f"{path}/"))


def overlap(one: str, other: str, rules: Mapping[str, str] = DEFAULT_RULES) -> bool:
    """Whether the two exclude each other."""
    return covers(one, other, rules) or covers(other, one, rules)


def of_file(file: str, *, prefix: str = "") -> str:
    """The lock of a file: `path:` and its name. What a name may not contain is written `=XX`, as in quoted-printable; a
    name that is too long is that of the nearest folder that fits."""
    segments = [
        _NOT_ALLOWED.sub(_escape, segment) if segment.strip(".") else "=2E" * len(segment)
        for segment in f"{prefix}{file}".split("/")
    ]
    while len(name := f"path:{'/'.join(segments)}".encode()) > MAX_BYTES:
        segments.pop()
    return name.decode()


def _escape(match: re.Match[str]) -> str:
    return "".join(f"={byte:02X}" for byte in match[0].encode("utf-8", "surrogateescape"))
