"""One watcher: which locks it watches, how far it has read, and what is still to be sent to it."""

import asyncio
from collections import deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from enum import Enum

from locks.events.history.filters import RUN_NAMES
from locks.events.stream.cursors import NOTHING, Cursor
from locks.events.stream.memory import Account
from locks.events.stream.sse import comment, id_line, without_name
from locks.events.stream.transitions import Transition

# A client that lets more than this pile up is disconnected; it can reconnect with Last-Event-ID.
MAX_PENDING_EVENTS = 2_000
MAX_PENDING_BYTES = 1024 * 1024


class CloseReason(Enum):
    """Sent as the last comment of a stream that the server ends."""

    SLOW = "You read too slowly. Reconnect with Last-Event-ID to resume."
    UNAVAILABLE = "The database does not answer. Reconnect with Last-Event-ID to resume."
    FAILED_OVER = "The database was replaced by another server. Reconnect with Last-Event-ID to resume."
    UNAUTHORIZED = "The token is no longer valid."
    LIFETIME = "The stream has reached its maximum life. Reconnect."


@dataclass(eq=False, kw_only=True)
class Watcher:
    """Lives on the event loop. `name` is one lock; without it, all locks whose names start with `prefix` and, if the
    token has prefixes, with one of those."""

    space_id: int
    token_id: int
    name: str | None
    prefix: str = ""
    token_prefixes: tuple[str, ...] = ()
    cursor: Cursor
    # Everything that is to be sent is taken from the account, and given back when it was sent.
    account: Account
    snapshot: deque[bytes] = field(default_factory=deque)
    # Without names, a client that handles unnamed messages only gets every event, as from OctoStore.
    has_named_frames: bool = True
    # For an actor of a run: the stored prefixes of the names of its layer and run, and how it writes them. It sees no
    # other names of layers and runs.
    run_names: dict[str, str] | None = None
    close_reason: CloseReason | None = None
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    _pending: list[bytes] = field(default_factory=list)
    _pending_events: int = 0
    _pending_bytes: int = 0

    def matches(self, name: str) -> bool:
        if self.name is not None:
            return name == self.name
        if self.run_names is not None and name.startswith(RUN_NAMES) and not name.startswith(tuple(self.run_names)):
            return False
        return name.startswith(self.prefix) and (not self.token_prefixes or name.startswith(self.token_prefixes))

    @property
    def can_catch_up(self) -> bool:
        """The client has got all that was read for it, so more can be read."""
        return not self._pending and self.close_reason is None

    @property
    def frame_key(self) -> Hashable:
        """Watchers with an equal one get the same frames."""
        run_names = None if self.run_names is None else tuple(self.run_names.items())
        return self.name, self.prefix, self.token_prefixes, run_names, self.has_named_frames, self.cursor

    def frames(self, rows: Iterable[tuple[Transition, bytes]]) -> tuple[list[bytes], Cursor]:
        """Those of the events that this watcher is to be sent, and its cursor after them. Nothing for an event that was
        sent before or is part of the snapshot."""
        frames: list[bytes] = []
        cursor = self.cursor
        for row, chunk in rows:
            position, visibility = row.position, cursor.visibility
            if position <= cursor.position or not self.matches(row.lock_name or ""):
                continue
            if visibility is not NOTHING and position.commit_position >= visibility.xmax:
                visibility = NOTHING
            assert row.txid is not None
            cursor = Cursor(row.at or row.now, position, row.timeline, visibility)
            if not visibility.shows(row.txid):
                frames.append(self._frame_with_id(chunk, cursor))
        return frames, cursor

    def send(self, frames: bytes, cursor: Cursor, *, events: int) -> None:
        self.cursor = cursor
        if events:
            self._append(frames, events=events)

    def send_ephemeral(self, chunk: bytes) -> None:
        """For what is not part of the history and cannot be resumed."""
        self._append(self._frame(chunk))

    def advance(self, cursor: Cursor) -> None:
        """There are no other events for it up to this cursor."""
        if cursor.position > self.cursor.position:
            visibility = self.cursor.visibility
            if visibility.is_passed_by(cursor.position):
                visibility = NOTHING
            self.cursor = Cursor(cursor.at, cursor.position, cursor.timeline, visibility)

    def close(self, reason: CloseReason) -> None:
        self.close_reason = self.close_reason or reason
        self.ready.set()

    def take_pending(self) -> bytes:
        pending = b"".join(self._pending)
        self._forget_pending()
        self.ready.clear()
        return pending

    def _forget_pending(self) -> None:
        self._pending, self._pending_events, self._pending_bytes = [], 0, 0

    def keepalive(self, cursor: Cursor) -> bytes:
        return id_line(cursor) + comment("no events")

    def _frame_with_id(self, chunk: bytes, cursor: Cursor) -> bytes:
        return id_line(cursor) + self._frame(chunk)

    def _frame(self, chunk: bytes) -> bytes:
        for stored, short in (self.run_names or {}).items():
            # No text can contain this sequence: quotes within a JSON text are escaped.
            chunk = chunk.replace(b'"lock_name":"' + stored.encode(), b'"lock_name":"' + short.encode())
        return chunk if self.has_named_frames else without_name(chunk)

    def _append(self, chunk: bytes, *, events: int = 1) -> None:
        if self.close_reason is not None:
            return
        if (
            self._pending_events + events > MAX_PENDING_EVENTS
            or self._pending_bytes + len(chunk) > MAX_PENDING_BYTES
            or not self.account.take(len(chunk))
        ):
            self.account.give_back(self._pending_bytes)
            self._forget_pending()
            self.close(CloseReason.SLOW)
            return
        self._pending.append(chunk)
        self._pending_events += events
        self._pending_bytes += len(chunk)
        self.ready.set()
