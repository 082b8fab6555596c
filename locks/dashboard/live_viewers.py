"""The tabs that are open on spaces: told that something changed, and ended when they lose the right to watch."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

LOOK_SECONDS = 1.0
# Looking takes no more than this part of the time, however many locks there are.
MAX_LOAD = 0.05
# Whoever is removed from a team or signed out loses the stream with the next check. Until then it told them a number.
RECHECK_SECONDS = 1.0

_SQL = Path(__file__).parent
_CHANGES = (_SQL / "live_changes.sql").read_text()
_MAY_STILL_WATCH = (_SQL / "authorized_viewers.sql").read_text()


@dataclass(eq=False, kw_only=True)
class Viewer:
    """A tab. Changes add up until it is told of them, so a slow one costs nothing more than a number."""

    session_key: str
    user_id: int
    password_digest: str
    space_id: int
    changes: int = 0
    is_gone: bool = False
    looked: asyncio.Event = field(default_factory=asyncio.Event)


class Viewers:
    """A duty of the process' live source: how many events each space has had since the last look, read in commit order,
    and whether anything moved that leaves no event. Lives on the event loop."""

    def __init__(self) -> None:
        self.seconds = LOOK_SECONDS
        self.max_duty_cycle = MAX_LOAD
        self._viewers: set[Viewer] = set()
        # Up to which transaction each space was looked at, and what was found there that leaves no event.
        self._reached: dict[int, int] = {}
        self._marks: dict[int, tuple[Any, ...]] = {}

    @property
    def is_needed(self) -> bool:
        return bool(self._viewers)

    @property
    def number(self) -> int:
        return len(self._viewers)

    def add(self, viewer: Viewer) -> None:
        self._viewers.add(viewer)

    def remove(self, viewer: Viewer) -> None:
        self._viewers.discard(viewer)

    def all(self) -> list[Viewer]:
        return list(self._viewers)

    async def look(self, connection: psycopg.AsyncConnection[Any]) -> bool:
        """Every viewer learns that the look succeeded, and what it found."""
        spaces = {viewer.space_id for viewer in self._viewers}
        for forgotten in self._marks.keys() - spaces:
            del self._marks[forgotten], self._reached[forgotten]
        asked = [list(spaces), [self._reached.get(space_id) for space_id in spaces]]
        changes: dict[int, int] = {}
        for space_id, beyond, events, *marks in await (await connection.execute(_CHANGES, asked)).fetchall():
            mark = tuple(marks)
            changes[space_id] = events or int(self._marks.get(space_id, mark) != mark)
            self._marks[space_id], self._reached[space_id] = mark, beyond
        for viewer in self._viewers:
            viewer.changes += changes.get(viewer.space_id, 0)
            viewer.looked.set()
        return False


class ViewerAuthorization:
    """A duty as well: who may no longer watch."""

    def __init__(self, viewers: Viewers) -> None:
        self.seconds = RECHECK_SECONDS
        self.max_duty_cycle = MAX_LOAD
        self._viewers = viewers

    @property
    def is_needed(self) -> bool:
        return self._viewers.is_needed

    async def look(self, connection: psycopg.AsyncConnection[Any]) -> bool:
        viewers = self._viewers.all()
        asked = [
            [viewer.session_key for viewer in viewers], [viewer.user_id for viewer in viewers],
            [viewer.password_digest for viewer in viewers], [viewer.space_id for viewer in viewers],
        ]  # fmt: skip
        allowed = {place for (place,) in await (await connection.execute(_MAY_STILL_WATCH, asked)).fetchall()}
        for place, viewer in enumerate(viewers, start=1):
            if place not in allowed:
                viewer.is_gone = True
                viewer.looked.set()
        return False
