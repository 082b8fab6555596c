"""Reads new events once for all watchers of the process, and lets those that connect or resume catch up."""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Hashable
from typing import Any

from locks.engine.execution import run_async
from locks.events.history.commit_order import current_position
from locks.events.stream.cursors import Cursor
from locks.events.stream.transitions import Transition, Transitions, read_transitions
from locks.events.stream.watch_event import encode_transition
from locks.events.stream.watchers import CloseReason, Watcher
from locks.postgresql.connections import AsyncConnection

MAX_EVENTS = 1_000
MAX_CATCH_UP_EVENTS = 250
# Watchers that are caught up go first: the others get no more than this of each poll.
CATCH_UP_SECONDS = 0.1
# How many events are sent to the watchers of a space before other tasks run, and for how long at most.
EVENTS_AT_ONCE = 100
DISPATCH_SECONDS = 0.002

LockKey = tuple[int, str]


class EventTail:
    """A watcher is catching up until it has got everything up to this reader's cursor; from then on each new event is
    sent to it as it is read."""

    seconds = 0.2
    max_duty_cycle = 0.5

    def __init__(self) -> None:
        self._cursor: Cursor | None = None
        # In the order in which they get their turn.
        self._catching_up: dict[Watcher, None] = {}
        self._by_name: defaultdict[LockKey, set[Watcher]] = defaultdict(set)
        self._by_space: defaultdict[int, set[Watcher]] = defaultdict(set)
        self._watchers: defaultdict[int, set[Watcher]] = defaultdict(set)
        self._by_team: Counter[int] = Counter()
        self.watcher_count = 0

    @property
    def is_needed(self) -> bool:
        return self.watcher_count > 0

    def watchers(self) -> list[Watcher]:
        return [watcher for watchers in self._watchers.values() for watcher in watchers]

    def count_in_team(self, team_id: int) -> int:
        return self._by_team[team_id]

    def watched_names(self) -> list[LockKey]:
        return list(self._by_name)

    def watched_spaces(self) -> list[int]:
        """Those where a watcher watches more than one name."""
        return list(self._by_space)

    def caught_up_watchers(self, space_id: int, name: str) -> list[Watcher]:
        by_name = self._by_name.get((space_id, name), set())
        return [*by_name, *(watcher for watcher in self._by_space.get(space_id, ()) if watcher.matches(name))]

    def add(self, watcher: Watcher) -> None:
        self._watchers[watcher.space_id].add(watcher)
        self._catching_up[watcher] = None
        self._by_team[watcher.account.team_id] += 1
        self.watcher_count += 1

    def remove(self, watcher: Watcher) -> None:
        self.watcher_count -= 1
        self._by_team -= Counter((watcher.account.team_id,))
        self._catching_up.pop(watcher, None)
        _discard(self._watchers, watcher.space_id, watcher)
        if watcher.name is None:
            _discard(self._by_space, watcher.space_id, watcher)
        else:
            _discard(self._by_name, (watcher.space_id, watcher.name), watcher)
        if not self.watcher_count:
            # The next watcher starts at the end of the history, not where this one left.
            self._cursor = None

    def close_all(self, reason: CloseReason) -> None:
        for watcher in self.watchers():
            watcher.close(reason)

    def connection_failed(self) -> None:
        """Clients reconnect, here or to another server, instead of waiting for events that may never come."""
        self.close_all(CloseReason.UNAVAILABLE)

    def cursor_of(self, watcher: Watcher) -> Cursor:
        """For a watcher that nothing is pending for."""
        if self._cursor is not None and watcher not in self._catching_up:
            watcher.advance(self._cursor)
        return watcher.cursor

    async def poll(self, connection: AsyncConnection) -> bool:
        if self._cursor is None:
            start = await run_async(connection, current_position())
            self._cursor = (await run_async(connection, read_transitions(start, spaces=[], limit=1))).cursor
        spaces = {*self._by_space, *(space_id for space_id, _name in self._by_name)}
        batch = await run_async(
            connection, read_transitions(self._cursor.position, spaces=list(spaces), limit=MAX_EVENTS)
        )
        if self._cursor is None:
            # The last watcher has left meanwhile.
            return False
        if batch.cursor.timeline != self._cursor.timeline:
            # Another server was promoted, or restored: its positions are not those that were sent.
            self.close_all(CloseReason.FAILED_OVER)
            self._cursor = None
            return False
        await self._dispatch(batch)
        return await self._catch_up_in_turn(connection) or batch.more

    async def _dispatch(self, batch: Transitions) -> None:
        """Lets other tasks of the event loop run in between: a space with many watchers and events must not delay the
        renewals of others. Meanwhile watchers may leave, and none gets caught up."""
        by_space: defaultdict[int, list[Transition]] = defaultdict(list)
        for row in batch.transitions:
            assert row.space_id is not None
            by_space[row.space_id].append(row)
        for space_id, rows in by_space.items():
            for start in range(0, len(rows), EVENTS_AT_ONCE):
                await self._dispatch_to_space(space_id, rows[start : start + EVENTS_AT_ONCE])
        # The last watcher may have left.
        if self.watcher_count:
            self._cursor = batch.cursor

    async def _dispatch_to_space(self, space_id: int, rows: list[Transition]) -> None:
        watchers = set(self._by_space.get(space_id, ()))
        watchers.update(*(self._by_name.get((space_id, row.lock_name or ""), ()) for row in rows))
        groups: defaultdict[Hashable, list[Watcher]] = defaultdict(list)
        for watcher in watchers:
            groups[watcher.frame_key].append(watcher)
        encoded = [(row, encode_transition(row)) for row in rows] if watchers else []
        until = time.monotonic() + DISPATCH_SECONDS
        for group in groups.values():
            if time.monotonic() > until:
                await asyncio.sleep(0)
                until = time.monotonic() + DISPATCH_SECONDS
            frames, cursor = group[0].frames(encoded)
            content = b"".join(frames)
            for watcher in group:
                if watcher in self._watchers.get(space_id, ()):
                    watcher.send(content, cursor, events=len(frames))
        await asyncio.sleep(0)

    async def _catch_up_in_turn(self, connection: AsyncConnection) -> bool:
        """True if a watcher is still catching up and can be sent more."""
        deadline = time.monotonic() + CATCH_UP_SECONDS
        for watcher in list(self._catching_up):
            if self._cursor is None or time.monotonic() > deadline:
                break
            if watcher.can_catch_up:
                await self._catch_up(connection, watcher, up_to=self._cursor)
        return any(watcher.can_catch_up for watcher in self._catching_up)

    async def _catch_up(self, connection: AsyncConnection, watcher: Watcher, *, up_to: Cursor) -> None:
        if watcher.cursor.timeline not in (None, up_to.timeline):
            # Its snapshot is of the server that was replaced.
            watcher.close(CloseReason.FAILED_OVER)
            return
        reading = read_transitions(
            watcher.cursor.position,
            up_to=up_to.position,
            spaces=[watcher.space_id],
            name=watcher.name,
            limit=MAX_CATCH_UP_EVENTS,
        )
        batch = await run_async(connection, reading)
        if watcher not in self._catching_up:
            return
        frames, cursor = watcher.frames((row, encode_transition(row)) for row in batch.transitions)
        watcher.send(b"".join(frames), cursor, events=len(frames))
        watcher.advance(batch.cursor)
        # Removed and, if there is more to read, added again at the end.
        del self._catching_up[watcher]
        if batch.cursor.position < up_to.position:
            self._catching_up[watcher] = None
        elif watcher.name is None:
            self._by_space[watcher.space_id].add(watcher)
        else:
            self._by_name[watcher.space_id, watcher.name].add(watcher)


def _discard(groups: defaultdict[Any, set[Watcher]], key: Any, watcher: Watcher) -> None:
    groups[key].discard(watcher)
    if not groups[key]:
        del groups[key]


# The one of this process.
event_tail = EventTail()
