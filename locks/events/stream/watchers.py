"""One watcher: what it wants to hear, how far it is, and what waits to be sent to it."""

import asyncio
from dataclasses import dataclass, field
from enum import Enum

from locks.events.stream.cursors import NOTHING, Cursor
from locks.events.stream.sse import id_line
from locks.events.stream.transitions import Transition

# What may wait for a reader. One that lets more pile up is cut off; it can come back and go on where it was.
MAX_EVENTS = 2_000
MAX_BYTES = 1024 * 1024


class CloseReason(Enum):
    """Why a stream ends, in the words of its last comment."""

    SLOW = "You read too slowly. Come back with Last-Event-ID to go on."
    NO_RIGHT = "The token is no longer valid."


@dataclass(eq=False, kw_only=True)
class Watcher:
    """Lives on the event loop. `name` is one lock; without it, all whose names start with the prefix, and with one of
    the token's prefixes if it has any."""

    space_id: int
    token_id: int
    name: str | None
    prefix: str = ""
    prefixes: tuple[str, ...] = ()
    bookmark: Cursor
    ending: CloseReason | None = None
    news: asyncio.Event = field(default_factory=asyncio.Event)
    _waiting: list[bytes] = field(default_factory=list)
    _bytes: int = 0

    def wants(self, name: str) -> bool:
        if self.name is not None:
            return name == self.name
        return name.startswith(self.prefix) and (not self.prefixes or name.startswith(self.prefixes))

    @property
    def is_served(self) -> bool:
        """Nothing waits to be sent."""
        return not self._waiting

    def tell(self, row: Transition, text: bytes) -> None:
        """Unless it knows of it already."""
        position, seen = row.position, self.bookmark.seen
        if position <= self.bookmark.position:
            return
        if seen is not NOTHING and position.commit_position >= seen.beyond:
            seen = NOTHING
        assert row.txid is not None
        known = seen.shows(row.txid)
        self.bookmark = Cursor(row.at or row.now, position, seen)
        if not known:
            self._put(id_line(self.bookmark) + text)

    def send_ephemeral(self, text: bytes) -> None:
        """What is not part of the history, and cannot be asked for again."""
        self._put(text)

    def reach(self, bookmark: Cursor) -> None:
        """There was nothing else up to here."""
        if bookmark.position > self.bookmark.position:
            seen = self.bookmark.seen
            self.bookmark = Cursor(
                bookmark.at, bookmark.position, NOTHING if seen.is_behind(bookmark.position) else seen
            )

    def end(self, why: CloseReason) -> None:
        self.ending = self.ending or why
        self.news.set()

    def take(self) -> bytes:
        """All that waits, to be sent at once."""
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        self.news.clear()
        return b"".join(waiting)

    def _put(self, text: bytes) -> None:
        if self.ending is not None:
            return
        self._waiting.append(text)
        self._bytes += len(text)
        if len(self._waiting) > MAX_EVENTS or self._bytes > MAX_BYTES:
            self._waiting, self._bytes = [], 0
            self.end(CloseReason.SLOW)
        self.news.set()
