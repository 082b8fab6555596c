"""The heads that a connection has sent before.

Whoever stays sends the same head again and again: only the path and the body are others, and now and then the length.
What a head means follows from its bytes, so one that was read once need not be read anew. It is known only if it came
in one piece with its whole body, as most do; whatever is unlike that goes to the parser.
"""

import re
from typing import NamedTuple

from octoadmin.serving.asgi_types import Scope

# An acquire, a release and a renewal differ in their length.
MAX_HEADS = 4
MAX_HEAD = 1024
# Of what a parser takes, the part that nobody can take for anything else. A name in it has at most 256 bytes.
_LINE = re.compile(rb"(GET|POST) (/[\w.\-:@+=~/%]{0,1024}) HTTP/1\.1")
_END_OF_LINE = b"\r\n"
_END_OF_HEAD = b"\r\n\r\n"


class Said(NamedTuple):
    """A request: what its head means, and the rest."""

    scope: Scope
    method: str
    target: bytes
    body: bytes


class KnownHeads:
    __slots__ = ("_known",)

    def __init__(self) -> None:
        # By the bytes of the header fields: the scope, and how long the body is.
        self._known: dict[bytes, tuple[Scope, int]] = {}

    def remember(self, data: bytes, scope: Scope, *, body_length: int) -> None:
        """If the data is one whole request: that is what the parser has made of it."""
        head, end, body = data.partition(_END_OF_HEAD)
        line, _, fields = head.partition(_END_OF_LINE)
        # If there is another request behind it, and this one was answered at once, the scope is that of the other; but
        # then more follows the head than the body of either.
        if not end or len(body) != body_length or len(fields) > MAX_HEAD or not _LINE.fullmatch(line):
            return
        if len(self._known) >= MAX_HEADS:
            self._known.clear()
        self._known[fields] = (scope.copy(), body_length)

    def find(self, data: bytes) -> Said | None:
        """If the data is one whole request, with a head that is known."""
        head, end, body = data.partition(_END_OF_HEAD)
        line, _, fields = head.partition(_END_OF_LINE)
        known = self._known.get(fields)
        if known is None or not end or len(body) != known[1]:
            return None
        found = _LINE.fullmatch(line)
        if found is None:
            return None
        method, target = found.groups()
        return Said(known[0].copy(), method.decode(), target, body)
