"""Follows the history for all watchers of the process at once, and lets those who come late catch up."""

import time
from collections import defaultdict
from typing import Any

import psycopg

from locks.engine.execution import run_async
from locks.events.history.commit_order import current_position
from locks.events.stream.cursors import Cursor
from locks.events.stream.sse import of_transition
from locks.events.stream.transitions import Transitions, read_transitions
from locks.events.stream.watchers import Watcher

NEWS_AT_ONCE = 1_000
CATCH_UP_AT_ONCE = 250
# Those who are level go first: catching up takes no more than this of a look.
CATCH_UP_SECONDS = 0.1

Watched = tuple[int, str]


class EventTail:
    """A watcher is `behind` until it has been told all that this reader has passed; from then on it is level."""

    seconds = 0.2
    max_duty_cycle = 0.5

    def __init__(self) -> None:
        self._reached: Cursor | None = None
        self._behind: dict[Watcher, None] = {}
        self._of_name: defaultdict[Watched, set[Watcher]] = defaultdict(set)
        self._of_space: defaultdict[int, set[Watcher]] = defaultdict(set)
        self._watchers: defaultdict[int, set[Watcher]] = defaultdict(set)
        self.number_of_watchers = 0

    @property
    def is_needed(self) -> bool:
        return self.number_of_watchers > 0

    def watchers(self) -> list[Watcher]:
        return [watcher for watchers in self._watchers.values() for watcher in watchers]

    def number_in(self, space_id: int) -> int:
        return len(self._watchers.get(space_id, ()))

    def level_names(self) -> list[Watched]:
        return list(self._of_name)

    def level_spaces(self) -> list[int]:
        """Where somebody watches more than single names."""
        return list(self._of_space)

    def level_watchers(self, space_id: int, name: str) -> list[Watcher]:
        exactly = self._of_name.get((space_id, name), set())
        return [*exactly, *(watcher for watcher in self._of_space.get(space_id, ()) if watcher.wants(name))]

    def add(self, watcher: Watcher) -> None:
        self._watchers[watcher.space_id].add(watcher)
        self._behind[watcher] = None
        self.number_of_watchers += 1

    def remove(self, watcher: Watcher) -> None:
        self.number_of_watchers -= 1
        self._behind.pop(watcher, None)
        _discard(self._watchers, watcher.space_id, watcher)
        if watcher.name is None:
            _discard(self._of_space, watcher.space_id, watcher)
        else:
            _discard(self._of_name, (watcher.space_id, watcher.name), watcher)
        if not self.number_of_watchers:
            # Whoever comes next need not wait until all that happened meanwhile has been read.
            self._reached = None

    def bookmark_of(self, watcher: Watcher) -> Cursor:
        """How far it is, now that nothing waits to be sent to it."""
        if self._reached is not None and watcher not in self._behind:
            watcher.reach(self._reached)
        return watcher.bookmark

    async def look(self, connection: psycopg.AsyncConnection[Any]) -> bool:
        if self._reached is None:
            start = await run_async(connection, current_position())
            self._reached = (await run_async(connection, read_transitions(start, spaces=[], limit=1))).reached
        reached = self._reached
        spaces = {*self._of_space, *(space_id for space_id, _name in self._of_name)}
        found = await run_async(connection, read_transitions(reached.position, spaces=list(spaces), limit=NEWS_AT_ONCE))
        self._pass_on(found)
        return await self._let_catch_up(connection) or found.more

    def _pass_on(self, found: Transitions) -> None:
        for row in found.transitions:
            assert row.space_id is not None
            if watchers := self.level_watchers(row.space_id, row.lock_name or ""):
                text = of_transition(row)
                for watcher in watchers:
                    watcher.tell(row, text)
        if self.number_of_watchers:
            self._reached = found.reached

    async def _let_catch_up(self, connection: psycopg.AsyncConnection[Any]) -> bool:
        """True if somebody is behind still and has been served what was found until now."""
        until = time.monotonic() + CATCH_UP_SECONDS
        for watcher in list(self._behind):
            if self._reached is None or time.monotonic() > until:
                break
            # Not faster than it reads: what it is still to hear can be read when it is ready for it.
            if watcher.is_served and watcher.ending is None:
                await self._catch_up(connection, watcher, up_to=self._reached)
        return any(watcher.is_served and watcher.ending is None for watcher in self._behind)

    async def _catch_up(self, connection: psycopg.AsyncConnection[Any], watcher: Watcher, *, up_to: Cursor) -> None:
        asked = read_transitions(
            watcher.bookmark.position,
            up_to=up_to.position,
            spaces=[watcher.space_id],
            name=watcher.name,
            limit=CATCH_UP_AT_ONCE,
        )
        found = await run_async(connection, asked)
        if watcher not in self._behind:
            return
        for row in found.transitions:
            if watcher.wants(row.lock_name or ""):
                watcher.tell(row, of_transition(row))
        watcher.reach(found.reached)
        # To the end of the line, so that everybody gets a turn.
        del self._behind[watcher]
        if found.reached.position < up_to.position:
            self._behind[watcher] = None
        elif watcher.name is None:
            self._of_space[watcher.space_id].add(watcher)
        else:
            self._of_name[watcher.space_id, watcher.name].add(watcher)


def _discard(kept: defaultdict[Any, set[Watcher]], key: Any, watcher: Watcher) -> None:
    kept[key].discard(watcher)
    if not kept[key]:
        del kept[key]
