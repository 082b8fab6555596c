"""Paths of the key-value store: their one canonical form, and who may read and write them.

A path that is not canonical (an empty, `.` or `..` segment, a wildcard) is refused and not repaired, so access cannot
be judged on another path than the one that is used.
"""

import re
from dataclasses import dataclass
from typing import Literal

from locks.runs.identities import Identity

MAX_PATH_BYTES = 512
# The time to match a pattern grows with its wildcards.
MAX_WILDCARDS = 8
ROOTS = ("ref", "peer", "shared", "leases")
# Segments as in lock names.
_SEGMENT = re.compile(r"[\w.\-:@+=~,]+")
_ACTOR_NAME = re.compile(r"[A-Za-z0-9._@+=~-]{1,64}")
_WILDCARDS = re.compile(r"\*\*|\*|\?|[^*?]+")


class InvalidPath(Exception):
    """The message says what is wrong."""


class AccessDenied(Exception):
    """The message names the caller, the path, and the path to use instead."""


@dataclass(frozen=True, slots=True)
class KvPath:
    """A canonical path. `peer` is the actor that a path under /peer belongs to."""

    text: str
    root: str
    peer: str | None
    rest: str


def is_valid_actor_name(name: str) -> bool:
    """It is a segment of paths and of addresses; `self` is an alias."""
    return _ACTOR_NAME.fullmatch(name) is not None and name not in (".", "..", "self")


def parse_path(text: str, *, caller: str) -> KvPath:
    """`text` starts with a slash. Raises InvalidPath."""
    if len(text.encode(errors="surrogatepass")) > MAX_PATH_BYTES:
        raise InvalidPath(f"The path is longer than {MAX_PATH_BYTES} bytes.")
    if not text.startswith("/"):
        raise InvalidPath(f"The path '{text}' is relative. Start it with /ref/, /peer/ or /shared/.")
    root, *segments = text[1:].split("/")
    if root not in ROOTS:
        raise InvalidPath(f"'{text}' is not a path of the store. Start it with /ref/, /peer/ or /shared/.")
    if not segments or any(_SEGMENT.fullmatch(each) is None or each in (".", "..") for each in segments):
        raise InvalidPath(
            f"'{text}' is not a canonical path. After /{root}/ come segments joined by '/', each of letters, digits "
            "and . _ - : @ + = ~ , and none of them empty, '.' or '..'."
        )
    if root != "peer":
        return KvPath(text, root, None, "/".join(segments))
    peer, *rest = segments
    if not rest:
        raise InvalidPath(f"'{text}' names an actor only. Add what to store, as in /peer/{peer}/result.")
    peer = caller if peer == "self" else peer
    return KvPath("/".join(("", root, peer, *rest)), root, peer, "/".join(rest))


def check_access(
    actor: Identity, path: KvPath, *, action: Literal["read", "write"], override: bool = False, as_lead: bool = False
) -> None:
    """Raises AccessDenied. `as_lead` is for the lead of the parent layer, which reads like the layer's own lead."""
    match path.root:
        case "leases":
            name = f"layer:{path.rest}"
            raise AccessDenied(
                f"{actor.name} may not {action} {path.text}: leases are not entries of the store. Use the lock "
                f"'{name}' instead: POST /locks/{name}/acquire."
            )
        case "ref" if action == "write" and not actor.is_lead:
            raise AccessDenied(
                f"{actor.name} may not write {path.text}: only the lead of the layer writes /ref. Write "
                f"/shared/{path.rest} or /peer/self/{path.rest} instead."
            )
        case "peer" if path.peer != actor.name:
            _check_peer(actor, path, action=action, override=override, as_lead=as_lead)


def _check_peer(actor: Identity, path: KvPath, *, action: str, override: bool, as_lead: bool) -> None:
    if action == "read" and (actor.is_lead or as_lead):
        return
    if action == "write" and actor.is_lead:
        if override:
            return
        raise AccessDenied(
            f"{actor.name} may not write {path.text} without override=true: it belongs to {path.peer}. Send "
            f"override=true, or write /ref/{path.rest} instead."
        )
    instead = f"/peer/self/{path.rest} or /shared/{path.rest}" if action == "write" else f"/shared/{path.rest}"
    raise AccessDenied(
        f"{actor.name} may not {action} {path.text}: it belongs to {path.peer}, and only {path.peer} and the lead of "
        f"the layer may. Use {instead} instead."
    )


@dataclass(frozen=True, slots=True)
class Glob:
    """`prefix` is the literal beginning of all matching paths; `pattern` a regular expression of PostgreSQL."""

    prefix: str
    pattern: str


def parse_glob(text: str, *, caller: str) -> Glob:
    """`*` and `?` match within a segment, `**` across segments. Raises InvalidPath."""
    if not text.startswith("/") or "\0" in text or len(text) > MAX_PATH_BYTES:
        raise InvalidPath("glob must be a path that starts with '/', such as /shared/**.")
    if text.startswith("/peer/self/"):
        text = f"/peer/{caller}/{text.removeprefix('/peer/self/')}"
    parts = _WILDCARDS.findall(text)
    if sum(part in ("*", "**") for part in parts) > MAX_WILDCARDS:
        raise InvalidPath(f"glob may have at most {MAX_WILDCARDS} wildcards * and **.")
    pattern = "".join(_to_regex(part) for part in parts)
    return Glob(prefix=re.split(r"[*?]", text, maxsplit=1)[0], pattern=f"^{pattern}$")


def _to_regex(part: str) -> str:
    match part:
        case "**":
            return ".*"
        case "*":
            return "[^/]*"
        case "?":
            return "[^/]"
    return "".join(character if character.isalnum() or character in "/_" else f"\\{character}" for character in part)
