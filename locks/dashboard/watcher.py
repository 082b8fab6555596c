"""One look a second at the watched spaces, on one connection, for all the viewers of this process."""

import asyncio
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import structlog

from locks.engine.connecting import connect

LOOK_SECONDS = 1.0
# Looking takes no more than this part of the time, however many locks there are.
MOST_LOAD = 0.05
RECHECK_SECONDS = 30.0
RETRY_SECONDS = 2.0

_SQL = Path(__file__).parent / "sql"
_WATCHED = (_SQL / "watched.sql").read_text()
_MAY_STILL_WATCH = (_SQL / "may_still_watch.sql").read_text()
_log = structlog.stdlib.get_logger(__name__)


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


class Watcher:
    """Works while somebody watches. Lives on the event loop."""

    def __init__(self) -> None:
        self._viewers: set[Viewer] = set()
        self._marks: dict[int, tuple[Any, ...]] = {}
        self._seen: dict[int, int] = {}
        self._task: asyncio.Task[None] | None = None

    @property
    def number_of_viewers(self) -> int:
        return len(self._viewers)

    def add(self, viewer: Viewer) -> None:
        self._viewers.add(viewer)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._watch())

    def remove(self, viewer: Viewer) -> None:
        self._viewers.discard(viewer)

    async def _watch(self) -> None:
        while self._viewers:
            try:
                async with await connect(purpose="live") as connection:
                    await self._look_again_and_again(connection)
            except psycopg.Error as error:
                _log.warning("the live view cannot reach the database", error=str(error))
                await asyncio.sleep(RETRY_SECONDS)

    async def _look_again_and_again(self, connection: psycopg.AsyncConnection[Any]) -> None:
        checked = time.monotonic()
        while self._viewers:
            began = time.monotonic()
            await self._look(connection)
            if began - checked >= RECHECK_SECONDS:
                await self._recheck(connection)
                checked = began
            took = time.monotonic() - began
            await asyncio.sleep(max(LOOK_SECONDS - took, took / MOST_LOAD))

    async def _look(self, connection: psycopg.AsyncConnection[Any]) -> None:
        """Every viewer learns that the look succeeded, and what it found."""
        spaces = {viewer.space_id for viewer in self._viewers}
        for forgotten in self._marks.keys() - spaces:
            del self._marks[forgotten], self._seen[forgotten]
        asked = [list(spaces), [self._seen.get(space_id, 0) for space_id in spaces]]
        changes: dict[int, int] = {}
        for space_id, *mark, latest, number in await (await connection.execute(_WATCHED, asked)).fetchall():
            before = self._marks.get(space_id)
            self._marks[space_id] = (*mark, latest)
            self._seen[space_id] = max(latest or 0, self._seen.get(space_id, 0))
            if before is not None and before != self._marks[space_id]:
                changes[space_id] = max(1, number)
        for viewer in self._viewers:
            viewer.changes += changes.get(viewer.space_id, 0)
            viewer.looked.set()

    async def _recheck(self, connection: psycopg.AsyncConnection[Any]) -> None:
        viewers = list(self._viewers)
        asked = [
            [viewer.session_key for viewer in viewers], [viewer.user_id for viewer in viewers],
            [viewer.password_digest for viewer in viewers], [viewer.space_id for viewer in viewers],
        ]  # fmt: skip
        allowed = {place for (place,) in await (await connection.execute(_MAY_STILL_WATCH, asked)).fetchall()}
        for place, viewer in enumerate(viewers, start=1):
            if place not in allowed:
                viewer.is_gone = True
                viewer.looked.set()
